import type { Server } from "node:http";
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { letLast } from "./long-request.ts";
import { nextChunk } from "./next-chunk.ts";
import type { Writing } from "./port.ts";
import { trackBody } from "./track-body.ts";
import { registerStream } from "./track-stream.ts";

const ndjson = "application/x-ndjson";
/** For a sender that goes on although the relay is stopping, in milliseconds. */
const shortPatience = 1_000;

const track = {
  method: "POST",
  path: "/v1/messages/track",
  name: "trackMessages",
  scope: "track",
  summary: "Registers messages that were sent, to be tracked",
  description:
    "As JSON all or none. As NDJSON each on its own: the answer has a line for each, and one of sums; it is to be read while sending.",
  body: trackBody,
  lines: "A registration a line, as the JSON body has one; any number of them.",
  answers: {
    200: {
      text: "How many are created now, and how many were known; of NDJSON, what became of each line.",
      types: ["application/json", ndjson],
    },
  },
  errors: ["conflict", "shutting_down"],
} as const;

/** `POST /v1/messages/track`: one or some as JSON, all or none; or a stream of any length as NDJSON, each line on its own. */
export function addTrackRoutes(app: FastifyInstance, writing: Writing, allow: Allow): void {
  const stopping = new AbortController();
  app.addHook("preClose", async () => stopping.abort());

  // A scope of its own: on other paths such a body is refused as any unknown type is.
  app.register(async (scope) => {
    scope.addContentTypeParser(ndjson, (_request, body, done) => done(null, body));
    addEndpoint(scope, allow, track, async ({ body, request, reply }) =>
      body instanceof Readable ? answerStream(request, body, reply) : writing.register(body),
    );
  });

  async function answerStream(request: FastifyRequest, body: Readable, reply: FastifyReply): Promise<FastifyReply> {
    if (request.headers["content-encoding"] !== undefined) throw new RelayError("bad_request", "lines are not taken compressed");
    // Longest silence. A server that listens to nobody, as in commands, has none set.
    const patience = (app.server as Server).requestTimeout || 10_000;
    letLast(request.raw, reply.raw, patience);

    const report = registerStream({
      next: () => nextChunk(body, patience, stopping.signal),
      registerEach: writing.registerEach,
      stop: stopping.signal,
      failed: (error) => app.reportFault(error, request.id),
    });
    // What fails before anything is registered is answered as elsewhere.
    const first = await report.next();
    return reply.type(ndjson).send(Readable.from(allOf(first), { objectMode: false, highWaterMark: 64 * 1024 }));

    async function* allOf(begun: IteratorResult<string, void>): AsyncGenerator<string> {
      if (begun.done !== true) yield begun.value;
      yield* report;
      // Some clients take an answer that ends before their request for a broken connection.
      await dropRest(body, stopping.signal.aborted ? shortPatience : patience);
    }
  }
}

/** Reads and drops what still comes of a body, for `withinMs` at most. */
async function dropRest(body: Readable, withinMs: number): Promise<void> {
  const deadline = AbortSignal.timeout(withinMs);
  for (;;) {
    const chunk = await nextChunk(body, withinMs, deadline);
    if (chunk === null || typeof chunk === "string") return;
  }
}
