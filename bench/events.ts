import { createHash, createHmac } from "node:crypto";

/** Settings that all sides of a bench share. */
export const source = "main";
export const account = "main";
export const secret = "bench-webhook-secret";
export const signatureHeader = "x-acme-signature";
export const path = `/webhooks/${source}`;

/**
 * Messages that are in the middle of their life at once. The events of a block of messages come as
 * one wave of `sent`, one of `delivered`, one of `read`, as a campaign's do: three events per
 * message, never two in a row.
 */
const block = 500;
const statuses = ["sent", "delivered", "read"] as const;

/**
 * Base of the times inside events: today, so that nothing is old enough to be tidied away, and the
 * same in all processes of a bench.
 */
const epoch = Math.floor(Date.now() / 86_400_000) * 86_400_000;

/**
 * A set of distinct events: those numbered from 0 to `count - 1` of one `run`. On one day the same
 * numbers give the same bytes, and no two runs (0 to 4095) share an event or a message.
 */
export interface EventSet {
  readonly run: number;
  readonly count: number;
}

export interface WaitingEvent {
  readonly id: string;
  readonly body: Buffer;
}

/** One `message.status` envelope of about 330 bytes. */
export function eventAt(run: number, sequence: number): WaitingEvent {
  const place = sequence % (block * statuses.length);
  const message = messageOf(sequence);
  const status = statuses[Math.floor(place / block)] as string;
  const at = epoch + run * 60_000 + Math.floor(sequence / 10);
  const id = eventId(at, run, sequence);
  const createdAt = new Date(at).toISOString();
  const conversation = hash(run, message).slice(0, 12);
  const text = `{"id":"${id}","event":"message.status","createdAt":"${createdAt}","data":{"wamid":"${wamidAt(run, message)}","status":"${status}","conversationId":"018f2c6a-1d3e-7b5a-9c41-${conversation}","phoneNumberId":"106540352242922","timestamp":"${Math.floor(at / 1000)}"}}`;
  return { id, body: Buffer.from(text) };
}

/** Wamids of all messages that the events of a set speak of. */
export function wamidsOf({ run, count }: EventSet): string[] {
  const perBlock = block * statuses.length;
  const whole = Math.floor(count / perBlock) * block;
  const messages = whole + Math.min(block, count % perBlock);
  return Array.from({ length: messages }, (_, message) => wamidAt(run, message));
}

/** The whole HTTP request that carries an event, as bytes ready to be written. */
export function requestFor(run: number, sequence: number): Buffer {
  const { body } = eventAt(run, sequence);
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  const head = `POST ${path} HTTP/1.1\r\nhost: relay.test\r\nuser-agent: acme-webhooks/1.0\r\naccept: */*\r\ncontent-type: application/json\r\n${signatureHeader}: sha256=${signature}\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/**
 * Run and number of an event, read from where its id is in the body; null when the body is none of
 * ours.
 */
export function numbersIn(body: Buffer): { run: number; sequence: number } | null {
  const id = /^\{"id":"[0-9a-f]{8}-[0-9a-f]{4}-7([0-9a-f]{3})-[0-9a-f]{4}-([0-9a-f]{12})"/.exec(
    body.toString("latin1", 0, 45),
  );
  return id === null
    ? null
    : { run: Number.parseInt(id[1] as string, 16), sequence: Number.parseInt(id[2] as string, 16) };
}

function messageOf(sequence: number): number {
  const perBlock = block * statuses.length;
  return Math.floor(sequence / perBlock) * block + (sequence % block);
}

/**
 * Shaped as UUID version 7: grows with time as the service's ids do; its random parts hold run and
 * number.
 */
function eventId(at: number, run: number, sequence: number): string {
  const time = at.toString(16).padStart(12, "0");
  const runText = run.toString(16).padStart(3, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${runText}-8${hash(run, sequence).slice(0, 3)}-${sequence.toString(16).padStart(12, "0")}`;
}

/**
 * 62 characters, as seen in the field: base64 of a frame with the recipient's phone and 18 digits
 * of the message.
 */
function wamidAt(run: number, message: number): string {
  const digits = hash(run, message);
  const phone = `54911${String(Number.parseInt(digits.slice(0, 8), 16) % 100_000_000).padStart(8, "0")}`;
  const frame = Buffer.concat([
    Buffer.from([0x1c, 0x18, phone.length]),
    Buffer.from(phone),
    Buffer.from([0x15, 0x02, 0x00, 0x11, 0x18, 18]),
    Buffer.from(digits.slice(8, 26).toUpperCase()),
    Buffer.from([0]),
  ]);
  return `wamid.${frame.toString("base64")}`;
}

function hash(run: number, number: number): string {
  return createHash("md5").update(`${run}:${number}`).digest("hex");
}
