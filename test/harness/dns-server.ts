import { createSocket } from "node:dgram";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** What the server knows of a name. */
export interface DnsName {
  readonly A?: readonly string[];
  /** IPv6 addresses, written in full. */
  readonly AAAA?: readonly string[];
  /** Seconds. */
  readonly ttl?: number;
  /** Types that get no answer at all. */
  readonly silent?: readonly ("A" | "AAAA")[];
  /** Milliseconds until it answers, or until it answers each type. */
  readonly afterMs?: number | Readonly<Record<"A" | "AAAA", number>>;
  /** Questions of each type that it does not answer before it answers one. */
  readonly ignores?: number;
  /** An error in place of the addresses. */
  readonly code?: "SERVFAIL" | "REFUSED";
}

export interface DnsServer {
  /** For `setServers`. */
  readonly address: string;
  /** `<type> <name>` of every question, in order. */
  readonly questions: string[];
}

const typeNames: Readonly<Record<number, "A" | "AAAA">> = { 1: "A", 28: "AAAA" };
const codes = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };

/**
 * A name server on loopback that ends with the test. Names that it does not know do not exist;
 * `names` may change.
 */
export async function startDnsServer(names: Readonly<Record<string, DnsName>>): Promise<DnsServer> {
  const questions: string[] = [];
  const timers = new Set<NodeJS.Timeout>();
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    const { name, type, end } = readQuestion(query);
    questions.push(`${type} ${name}`);
    const known = names[name.toLowerCase()];
    if (known?.silent?.includes(type) === true) return;
    const earlier = questions.filter((question) => question === `${type} ${name}`).length - 1;
    if (earlier < (known?.ignores ?? 0)) return;
    const afterMs =
      typeof known?.afterMs === "object" ? known.afterMs[type] : (known?.afterMs ?? 0);
    const timer = setTimeout(() => {
      timers.delete(timer);
      socket.send(answer(query.subarray(0, end), known, type), from.port, from.address);
    }, afterMs);
    timers.add(timer);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => {
    for (const timer of timers) clearTimeout(timer);
    socket.close();
  });
  return { address: `127.0.0.1:${(socket.address() as AddressInfo).port}`, questions };
}

function readQuestion(query: Buffer): { name: string; type: "A" | "AAAA"; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = typeNames[query.readUInt16BE(at + 1)];
  if (type === undefined) throw new Error("a question of another type");
  return { name: labels.join("."), type, end: at + 5 };
}

/** `question`: the head of the query and its question. */
function answer(question: Buffer, known: DnsName | undefined, type: "A" | "AAAA"): Buffer {
  const head = Buffer.from(question);
  const addresses = known?.code === undefined ? (known?.[type] ?? []) : [];
  head.writeUInt16BE(
    0x8180 |
      (known === undefined ? codes.NXDOMAIN : known.code === undefined ? 0 : codes[known.code]),
    2,
  );
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((address) => {
    const data =
      type === "A"
        ? Buffer.from(address.split(".").map(Number))
        : Buffer.from(address.replaceAll(":", ""), "hex");
    const record = Buffer.alloc(12);
    // The name is that of the question.
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(type === "A" ? 1 : 28, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(known?.ttl ?? 60, 6);
    record.writeUInt16BE(data.length, 10);
    return Buffer.concat([record, data]);
  });
  return Buffer.concat([head, ...records]);
}
