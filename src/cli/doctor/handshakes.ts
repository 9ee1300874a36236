import type { AnswerOf } from "../../client/relay-client.ts";
import { type ControlClient, failureOf } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { type Finding, fail, ok, skip } from "./finding.ts";

/** A route as the overview shows it. */
type Destination = Pick<AnswerOf<"getOverview">["destinations"][number], "route" | "handshake">;

interface HandshakeParts {
  /** Of the relay, which performs the handshakes, with the scope `replay`. Null: see `why`. */
  readonly client: ControlClient | null;
  /** Why none is performed. */
  readonly why: string;
  /** Also those that succeeded before. */
  readonly repeat: boolean;
}

/** Meta's handshake with the destinations that have a `verifyToken`, one at a time. */
export async function checkHandshakes(destinations: readonly Destination[], parts: HandshakeParts): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { route, handshake } of destinations) {
    if (handshake !== null) findings.push(await checkHandshake(route, handshake.doneAt, parts));
  }
  return findings;
}

async function checkHandshake(route: string, doneAt: string | null, { client, why, repeat }: HandshakeParts): Promise<Finding> {
  const check = "handshake";
  if (doneAt !== null && !(repeat && client !== null)) return ok(check, `${route}: done on ${doneAt}`);
  if (client === null) return skip(check, `${route}: ${why}`);
  const todo = `correct to.url and to.verifyToken of ${route}, and see whether the app runs`;
  try {
    const answer = await client.performHandshake({ route, repeat });
    if (answer.problem === null) return ok(check, `${route}: done on ${answer.doneAt}`);
    const before = answer.doneAt === null ? "" : `; it succeeded on ${answer.doneAt}, and the app may take its token only once`;
    return fail(check, `${route}: ${answer.problem}${before}`, todo);
  } catch (error) {
    const failure = failureOf(error);
    if (!(failure instanceof CommandFailed)) throw failure;
    return fail(check, `${route}: ${failure.message}`, todo);
  }
}
