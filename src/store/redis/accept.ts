import { isTruncated } from "../../event/envelope.ts";
import type { HydrationStart } from "../../event/hydration.ts";
import type { DeliveryPlan } from "../../event/plan.ts";
import type { QuarantinedBody, ReceivedEvent } from "../../event/received.ts";
import { nothingTracked } from "../facts.ts";
import type { AcceptOutcome, DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { inlineBytes, rowWithBody } from "./bodies.ts";
import { type Argument, type GroupCommit, lostTheRace, mostTries, type Operation, pushOperations } from "./commit.ts";
import { dispositionCode, writeEventRow } from "./event-row.ts";
import { orderKey } from "./order-key.ts";
import { planText } from "./plan-texts.ts";
import type { SubjectCache } from "./subject-cache.ts";
import { indexSubject } from "./subject-index.ts";
import { readSubjectRow, writeSubjectRow } from "./subject-row.ts";
import { subjectNameOf, trackEvent } from "./track.ts";
import { rowJson, rowVersion } from "./transact.ts";

export interface AcceptParts {
  /** Of all keys. */
  readonly base: string;
  readonly commit: GroupCommit;
  readonly rules: Rules;
  readonly cache: SubjectCache;
  readonly version: () => string;
  /** What is stored beside a truncated event, in its step; `@seq@` stands for its seq. */
  readonly hydrating: (event: ReceivedEvent, start: HydrationStart) => readonly Operation[] | Promise<readonly Operation[]>;
}

/**
 * Accept + track + plan in one atomic step, of any receiver. The rules are computed here, from the subject's row as this
 * process last saw it; when it was changed since, it comes back, and they are computed again.
 */
export function createAccept({ base, commit, rules, cache, version, hydrating }: AcceptParts) {
  /** `proxyRoute`: the exchange that a `mode: proxy` source makes at once; no dispatcher picks it up. */
  async function accept(event: ReceivedEvent, proxyRoute: string | null): Promise<AcceptOutcome> {
    const { account, envelope, receivedAt, subject } = event;
    const name = subjectNameOf(event);
    const id = `id:${account}:${envelope.id}`;
    const created = Date.parse(envelope.createdAt);
    const createdAt = Number.isNaN(created) ? receivedAt : created;
    const truncated = isTruncated(envelope);
    const hydration = truncated ? rules.hydration({ event: envelope.event, account, hasSubject: name !== null }) : null;
    const beside = hydration === null ? [] : await hydrating(event, hydration);
    const isHydrating = hydration?.state === "waiting";
    const status = subject.type === "none" ? null : subject.status;
    const errorCode = subject.type === "message" ? subject.errorCode : null;

    for (let tries = 0; tries < mostTries; tries++) {
      const stored = name === null ? "" : (cache.known(name) ?? (await cache.load(name)));
      const storedSubject = stored === "" ? null : readSubjectRow(rowJson(stored));
      const tracked = trackEvent(rules, event, storedSubject, createdAt);
      const tracking = tracked?.tracking ?? nothingTracked;
      const routed = { event: envelope.event, account, source: event.source, status, errorCode, data: envelope.data, truncated };
      const plan = withProxy(rules.plan({ ...routed, hydrating: isHydrating }, tracking), proxyRoute);
      const isParked = plan.verdicts.some(({ verdict }) => verdict === "park") && !isHydrating;
      const parkedUntil = isParked ? receivedAt + rules.parkFor : null;
      const text = planText(plan);
      const row = writeEventRow({
        subject: name,
        account,
        source: event.source,
        id: envelope.id,
        kind: envelope.event,
        origin: event.origin,
        receivedAt,
        createdAt,
        secret: event.secret,
        status,
        previousStatus: tracking.previousStatus,
        moved: tracking.transition !== null,
        errorCode,
        disposition: plan.disposition,
        plan: text.digest,
        parkedUntil,
        fault: null,
        headers: someHeaders(event.headers),
        size: event.body.length,
      });
      // Whoever releases what is parked for a subject must see that one more is.
      const next = tracked?.next ?? (isParked ? storedSubject : null);
      const nextRow = next === null ? "" : version() + writeSubjectRow(next);
      const planned = plannedDeliveries(plan, name, receivedAt, proxyRoute);
      // A run that ends is no more one that a truncated result may be about. Of messages only registration moves such lists.
      const indexed = subject.type === "run" && name !== null && next !== null ? indexSubject(base, name, storedSubject, next) : [];
      const operations = [...beside, ...indexed];
      const isInline = event.body.length <= inlineBytes;
      const isRare = isParked || plan.disposition === "ignored" || event.origin !== "webhook" || !isInline || operations.length > 0;

      const list: Argument[] = [id, rowWithBody(version() + row, isInline ? event.body : null), name ?? "", rowVersion(stored), nextRow];
      const routes: string[] = [];
      const looked = [id];
      if (name !== null) looked.push(name);
      for (const { route, order, at } of planned) {
        routes.push(route);
        list.push(order, at);
        if (order !== "" && at !== "") looked.push(`o:${route}:${order}`);
      }
      if (isRare) {
        const parkedText = parkedUntil === null ? "" : String(parkedUntil);
        list.push(dispositionCode(plan.disposition), parkedText, event.origin === "webhook" ? "" : account, String(receivedAt));
        list.push(isInline ? "" : event.body);
        pushOperations(list, operations);
      }

      const proof = proofOf(event);
      const form = { proof, routes, isRare };
      const result = await commit.run({
        list,
        form,
        account,
        plan: text,
        looked,
        ...(proof === "" ? {} : { proof: { name: proof, at: receivedAt } }),
      });
      if (typeof result === "string") {
        if (name !== null && nextRow !== "") cache.remember(name, nextRow);
        const end = result.indexOf(" ");
        const seq = Number(end < 0 ? result : result.slice(0, end));
        const due = planned.flatMap(({ route, at }, n): DueDelivery[] =>
          at === "" || (end >= 0 && result[end + 1 + n] !== "0") ? [] : [{ route, event: seq, at: Number(at) }],
        );
        return { result: "accepted", seq, disposition: plan.disposition, due };
      }
      const [what, same, answer] = result;
      if (what === 2) return { result: "duplicate", seq: Number(same), conflict: answer === 1 };
      if (name !== null) cache.remember(name, String(answer));
    }
    throw lostTheRace("the message");
  }

  /** Deliveries as the script takes them: `order` is empty for unordered ones; of an exchange it is when it began, and `at` is empty. */
  function plannedDeliveries(plan: DeliveryPlan, subject: string | null, now: number, proxyRoute: string | null) {
    const planned: { route: string; order: string; at: string }[] = [];
    let order: string | null = null;
    for (const { route, verdict } of plan.verdicts) {
      if (verdict !== "deliver") continue;
      if (route === proxyRoute) {
        planned.push({ route, order: String(now), at: "" });
        continue;
      }
      const { ordered, firstWait } = rules.timing(route);
      if (ordered && subject !== null) order ??= orderKey(subject);
      planned.push({ route, order: ordered && order !== null ? order : "", at: String(now + firstWait) });
    }
    return planned;
  }

  async function quarantine(body: QuarantinedBody): Promise<number> {
    const { account, source, origin, receivedAt, secret } = body;
    const row = writeEventRow({
      subject: null,
      account,
      source,
      id: null,
      kind: null,
      origin,
      receivedAt,
      createdAt: null,
      secret,
      status: null,
      previousStatus: null,
      moved: false,
      errorCode: null,
      disposition: "quarantined",
      plan: null,
      parkedUntil: null,
      fault: body.error,
      headers: someHeaders(body.headers),
      size: body.body.length,
    });
    const isInline = body.body.length <= inlineBytes;
    const proof = proofOf(body);
    const list = ["Q", rowWithBody(version() + row, isInline ? body.body : null), isInline ? "" : body.body, String(receivedAt), proof];
    const [, seq] = await commit.run({ list, ...(proof === "" ? {} : { proof: { name: proof, at: receivedAt } }) });
    return Number(seq);
  }

  return { accept, quarantine };
}

function someHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> | null {
  for (const _ in headers) return headers;
  return null;
}

const proofOf = ({ source, secret }: Pick<ReceivedEvent, "source" | "secret">): string => (secret === null ? "" : `${source}:${secret}`);

function withProxy(plan: DeliveryPlan, route: string | null): DeliveryPlan {
  if (route === null) return plan;
  return { disposition: "forwarded", verdicts: [{ route, verdict: "deliver" }, ...plan.verdicts] };
}
