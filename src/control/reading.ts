import { isUtf8 } from "node:buffer";
import type { FastifyRequest } from "fastify";
import type { EventDetail, MessageView, Story } from "../model/answers.ts";
import type { AnswerView } from "../model/endpoint.ts";
import type { Endpoints } from "../model/endpoints/table.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import { keysOf, mostSteps, type QualityView, type SeriesQuery, type SeriesView, seriesQuery } from "../model/history.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { EndpointName } from "../model/paths.ts";
import type {
  DeliveryQuery,
  EventQuery,
  ExplainQuery,
  GroupQuery,
  MessageQuery,
  OfAccounts,
  QualityQuery,
  RunQuery,
} from "../model/queries.ts";
import type { Handlers } from "./endpoint.ts";
import { lookUp } from "./guesses.ts";

type Answer<Name extends EndpointName> = Promise<AnswerView<Endpoints[Name]>>;

/** Reads a store without writing, in a relay or beside a running one. `wholeOnly`: by whole names, not by a part of one. */
export interface Reading {
  listEvents(filter: EventQuery, wholeOnly: boolean): Answer<"listEvents">;
  /** By `seq` when `id` is the seq of an event, else by event id: one for each account that has it. */
  findEvents(id: string): Promise<readonly EventDetail[]>;
  listDeliveries(filter: DeliveryQuery): Answer<"listDeliveries">;
  groupDeliveries(filter: GroupQuery): Answer<"groupDeliveries">;
  listMessages(filter: MessageQuery, wholeOnly: boolean): Answer<"listMessages">;
  /** By wamid, else by the service's message id, else by reference. */
  findMessages(name: string, of: OfAccounts): MaybePromise<readonly MessageView[]>;
  listRuns(filter: RunQuery, wholeOnly: boolean): Answer<"listRuns">;
  stats(): Answer<"getStats">;
  readonly search: SearchPort;
}

export type SearchPort = (text: string, wholeOnly: boolean, accounts?: readonly string[]) => Answer<"search">;

export interface ExplainPort {
  deliveriesOf(event: number): Promise<AnswerView<Endpoints["getEvent"]>["deliveries"]>;
  /** Several when accounts, or messages with one reference, share the name; none when nothing has it. */
  explain(query: ExplainQuery): Promise<readonly Story[]>;
}

export interface HistoryPort {
  readonly now: () => number;
  series(query: SeriesQuery): Promise<SeriesView>;
  quality(query: QualityQuery): Promise<QualityView>;
}

export function createReadingHandlers(port: Reading, explaining: ExplainPort) {
  return {
    listEvents: (query, { request }) =>
      lookUp(request, { names: [query.q, query.wamid, query.subject] }, (wholeOnly) => port.listEvents(query, wholeOnly), isSome),
    async getEvent({ id, ...of }, { request }) {
      const found = await findNamed(request, id, of, port.findEvents);
      const { body, ...event } = onlyOne(found, "event", ({ seq, account }) => ({ seq, account }));
      request.about = [body];
      const text = isUtf8(body) ? body.toString("utf8") : null;
      return { ...event, body: body.toString("base64"), text, deliveries: await explaining.deliveriesOf(event.seq) };
    },
    listDeliveries: (query) => port.listDeliveries(query),
    groupDeliveries: (query) => port.groupDeliveries(query),
    listMessages: (query, { request }) => {
      const { phone, q, reference } = query;
      return lookUp(request, { phone, names: [q, reference] }, (wholeOnly) => port.listMessages(query, wholeOnly), isSome);
    },
    getMessage: async ({ wamid, ...of }, { request }) =>
      onlyOne(await findNamed(request, wamid, of, port.findMessages), "message", ({ account, wamid }) => ({ account, wamid })),
    listRuns: (query, { request }) =>
      lookUp(request, { names: [query.q, query.reference, query.runId] }, (wholeOnly) => port.listRuns(query, wholeOnly), isSome),
    search: ({ q, accounts }, { request }) => lookUp(request, { names: [q] }, (wholeOnly) => port.search(q, wholeOnly, accounts), isSome),
    getStats: () => port.stats(),
    async explain(query, { request }) {
      const stories = await lookUp(request, { names: [query.name] }, () => explaining.explain(query), hasAny);
      if (!hasAny(stories)) throw new RelayError("not_found", "not found: no event, message or run has this id, wamid or reference");
      request.about = stories.flatMap(({ events }) => events.map(({ body }) => body));
      return { data: stories };
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
  const isOf = (one: T) => (account === undefined || one.account === account) && (accounts === undefined || accounts.includes(one.account));
  return lookUp(request, { names: [name] }, async () => (await find(name, of)).filter(isOf), hasAny);
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

export function createHistoryHandlers(port: HistoryPort) {
  return {
    getSeries({ to, from, ...given }) {
      const now = port.now();
      refuseReversed(from, to ?? now);
      const { name, by } = given;
      const keys = keysOf(name);
      if (by !== undefined && !keys.includes(by)) {
        const message = keys.length === 0 ? `${name} has nothing to split it by` : `must be one of ${keys.join(", ")} for ${name}`;
        throw badRequest([{ path: "by", message }]);
      }
      const query = seriesQuery({ ...given, from, to }, now);
      const steps = (query.to - query.from) / query.step / 1000;
      if (steps > mostSteps) throw badRequest([{ path: "step", message: `gives ${steps} values; the most are ${mostSteps}` }]);
      return port.series(query);
    },
    getQuality({ to = port.now(), from = to - dayMs, route, reference }) {
      refuseReversed(from, to);
      return port.quality({ from, to, route, reference });
    },
  } satisfies Partial<Handlers>;
}

function refuseReversed(from: number | undefined, to: number): void {
  if (from !== undefined && from >= to) throw badRequest([{ path: "from", message: "must be before to" }]);
}
