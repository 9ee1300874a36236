import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";

const lasting = new WeakSet<Socket>();

/**
 * Lets a request arrive for longer than `server.requestTimeout`, which Node holds every request of a server to.
 * Who asks ends one that falls silent; ended here is a connection that moves no byte in either direction for twice
 * `patienceMs`, which is somebody who does not read the answer, and one whose request goes on for `patienceMs` after the
 * answer.
 */
export function letLast(request: IncomingMessage, response: ServerResponse, patienceMs: number): void {
  const { socket } = request;
  // A request made by `inject` has none.
  if (!(socket instanceof Socket)) return;
  lasting.add(socket);
  socket.setTimeout(2 * patienceMs);
  response.once("close", () => {
    lasting.delete(socket);
    socket.setTimeout(0);
    if (request.complete || socket.destroyed) return;
    // The rest is read and dropped. Closed at once with unread bytes, the connection would be reset, and a reset
    // overtakes the answer.
    request.resume();
    const late = setTimeout(() => socket.destroy(), patienceMs);
    request.once("end", () => clearTimeout(late));
    socket.once("close", () => clearTimeout(late));
  });
}

/** Asked when Node says that a request's time is up. It says so once, and leaves closing to who is told ('clientError'). */
export function mayLast(socket: Socket): boolean {
  return lasting.has(socket);
}
