import { connect, type Socket } from "node:net";

const headEnd = Buffer.from("\r\n\r\n");

/**
 * Status and whole length in bytes of the answer that starts `bytes`; null while its head is
 * incomplete.
 */
export function readAnswer(bytes: Buffer): { status: number; length: number } | null {
  const end = bytes.indexOf(headEnd);
  if (end === -1) return null;
  const head = bytes.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  const status = Number(head.slice(9, 12));
  if (length === null && status !== 204 && status !== 304)
    throw new Error(`an answer without content-length cannot be measured:\n${head}`);
  return { status, length: end + headEnd.length + Number(length?.[1] ?? 0) };
}

/** Tells the server that no further request follows on the connection. */
const closeHeader = Buffer.from("connection: close\r\n");

/** One connection, or a new one for each request, with at most one request in flight. */
export class Connection {
  /** Number of the request in flight; -1 when idle. */
  sequence = -1;
  /** When the request in flight should have been sent, as `performance.now()` gives it. */
  since = 0;
  readonly #port: number;
  readonly #answered: (connection: Connection, status: number) => void;
  readonly #lost: (connection: Connection, error: Error | null) => void;
  #socket: Socket | null = null;
  #received: Buffer | null = null;

  /**
   * `answered`: with the status, once the answer is whole. `lost`: the connection ended; `sequence`
   * says whether a request went with it.
   */
  constructor(
    port: number,
    answered: (connection: Connection, status: number) => void,
    lost: (connection: Connection, error: Error | null) => void,
  ) {
    this.#port = port;
    this.#answered = answered;
    this.#lost = lost;
  }

  open(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const socket = this.#connect();
    let failure: Error | null = null;
    let opened = false;
    socket.once("connect", () => {
      opened = true;
      this.#socket = socket;
      this.#received = null;
      resolve();
    });
    socket.once("error", (error) => {
      failure = error;
    });
    socket.once("close", () => {
      if (!opened) return reject(failure ?? new Error("closed before it was open"));
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#lost(this, failure);
    });
    return promise;
  }

  send(request: Buffer, sequence: number, since: number): void {
    this.sequence = sequence;
    this.since = since;
    this.#socket?.write(request);
  }

  /** On a connection of its own, which the server closes after its answer. */
  sendAlone(request: Buffer, sequence: number, since: number): void {
    this.sequence = sequence;
    this.since = since;
    this.#received = null;
    const socket = this.#connect();
    this.#socket = socket;
    let failure: Error | null = null;
    socket.once("error", (error) => {
      failure = error;
    });
    socket.once("close", () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#lost(this, failure);
    });
    const lineEnd = request.indexOf("\n") + 1;
    socket.write(
      Buffer.concat([request.subarray(0, lineEnd), closeHeader, request.subarray(lineEnd)]),
    );
  }

  /** The server closes the connection itself: its end is not a loss. */
  leave(): void {
    this.#socket = null;
  }

  close(): void {
    const socket = this.#socket;
    this.#socket = null;
    socket?.destroy();
  }

  #connect(): Socket {
    const socket = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    return socket;
  }

  #read(chunk: Buffer): void {
    const bytes = this.#received === null ? chunk : Buffer.concat([this.#received, chunk]);
    const answer = readAnswer(bytes);
    if (answer === null || bytes.length < answer.length) {
      this.#received = bytes;
      return;
    }
    if (bytes.length > answer.length) throw new Error("more was answered than was asked");
    this.#received = null;
    this.#answered(this, answer.status);
  }
}
