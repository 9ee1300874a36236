import { isUtf8 } from "node:buffer";
import type { FastifyRequest } from "fastify";
import type { Handlers } from "../control/endpoint.ts";
import { lookUp } from "../control/guesses.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { OfAccounts } from "../model/queries.ts";
import { keysOf, mostSteps, seriesQuery } from "../model/series.ts";
import type { Inspecting } from "../store/port.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { createExplaining } from "./explaining.ts";
import {
  createReading,
  createStoredHandlers,
  refuseReversed,
  type StoredParts,
} from "./reading.ts";

interface ReadParts extends StoredParts, Omit<Parameters<typeof createExplaining>[0], "read"> {
  readonly read: StoreReading;
  /** For lists, which may take long. */
  readonly browse: StoreReading;
  readonly inspecting: Inspecting;
}

/** What reads a store without writing, in a relay or beside a running one. */
export function createReadHandlers({ browse, ...parts }: ReadParts) {
  const { inspecting, now } = parts;
  const port = createReading(browse);
  const { explain, deliveriesOf } = createExplaining(parts);
  return {
    ...createStoredHandlers(parts),
    listEvents: (query, { request }) =>
      lookUp(
        request,
        { names: [query.q, query.wamid, query.subject] },
        (wholeOnly) => port.listEvents(query, wholeOnly),
        isSome,
      ),
    async getEvent({ id, ...of }, { request }) {
      const found = await findNamed(request, id, of, port.findEvents);
      const { body, ...event } = onlyOne(found, "event", ({ seq, account }) => ({ seq, account }));
      request.about = [body];
      const bytes = Buffer.from(body);
      return {
        ...event,
        body: bytes.toString("base64"),
        text: isUtf8(bytes) ? bytes.toString("utf8") : null,
        deliveries: await deliveriesOf(event.seq),
      };
    },
    listDeliveries: port.listDeliveries,
    groupDeliveries: port.groupDeliveries,
    listMessages: (query, { request }) => {
      const { phone, q, reference } = query;
      return lookUp(
        request,
        { phone, names: [q, reference] },
        (wholeOnly) => port.listMessages(query, wholeOnly),
        isSome,
      );
    },
    getMessage: async ({ wamid, ...of }, { request }) =>
      onlyOne(
        await findNamed(request, wamid, of, port.findMessages),
        "message",
        ({ account, wamid }) => ({ account, wamid }),
      ),
    listRuns: (query, { request }) =>
      lookUp(
        request,
        { names: [query.q, query.reference, query.runId] },
        (wholeOnly) => port.listRuns(query, wholeOnly),
        isSome,
      ),
    search: ({ q, accounts }, { request }) =>
      lookUp(request, { names: [q] }, (wholeOnly) => port.search(q, wholeOnly, accounts), isSome),
    getStats: inspecting.stats,
    async explain(query, { request }) {
      const stories = await lookUp(request, { names: [query.name] }, () => explain(query), hasAny);
      if (!hasAny(stories))
        throw new RelayError(
          "not_found",
          "not found: no event, message or run has this id, wamid or reference",
        );
      request.about = stories.flatMap(({ events }) => events.map(({ body }) => body));
      return { data: stories };
    },
    getSeries({ to, from, ...given }) {
      const at = now();
      refuseReversed(from, to ?? at);
      const { name, by } = given;
      const keys = keysOf(name);
      if (by !== undefined && !keys.includes(by)) {
        const message =
          keys.length === 0
            ? `${name} has nothing to split it by`
            : `must be one of ${keys.join(", ")} for ${name}`;
        throw badRequest([{ path: "by", message }]);
      }
      const query = seriesQuery({ ...given, from, to }, at);
      const steps = (query.to - query.from) / query.step / 1000;
      if (steps > mostSteps)
        throw badRequest([
          { path: "step", message: `gives ${steps} values; the most are ${mostSteps}` },
        ]);
      return browse.series(query);
    },
    getQuality({ to = now(), from = to - dayMs, ...query }) {
      refuseReversed(from, to);
      return browse.quality({ ...query, from, to });
    },
  } satisfies Partial<Handlers>;
}

const hasAny = ({ length }: readonly unknown[]): boolean => length > 0;
const isSome = ({ data }: { readonly data: readonly unknown[] }): boolean => hasAny(data);

/** Those of a name in the accounts that the request is about, and that its caller may see. */
function findNamed<T extends { readonly account: string }>(
  request: FastifyRequest,
  name: string,
  of: OfAccounts,
  find: (name: string, of: OfAccounts) => MaybePromise<readonly T[]>,
): Promise<readonly T[]> {
  const { account, accounts } = of;
  const isOf = (one: T) =>
    (account === undefined || one.account === account) &&
    (accounts === undefined || accounts.includes(one.account));
  return lookUp(
    request,
    { names: [name] },
    async () => (await find(name, of)).filter(isOf),
    hasAny,
  );
}

/** Throws unless a name has one subject. `name` names each of several. */
function onlyOne<T>(found: readonly T[], what: "event" | "message", name: (one: T) => object): T {
  const [one, ...others] = found;
  if (one === undefined) throw new RelayError("not_found", `no such ${what}`);
  if (others.length === 0) return one;
  const message =
    what === "event"
      ? "events of several accounts have this id; ask with account=, or by seq"
      : "several messages have this; ask by wamid, with account= where two accounts have it";
  throw new RelayError("bad_request", message, found.map(name));
}

const dayMs = 86_400_000;
