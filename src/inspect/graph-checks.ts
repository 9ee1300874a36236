import { z } from "zod";
import type { Settings } from "../config/schema.ts";
import { metaOf } from "../config/sources.ts";
import type { SourceCheckView } from "../model/answers/relay.ts";
import { RelayError } from "../model/errors.ts";
import { accountOf } from "../model/formats/formats.ts";
import { refuseUnknown } from "../model/nearest.ts";

/** The person who asked for it waits. */
const longestMs = 10_000;
/** Most numbers of a business account that are read. */
const mostNumbers = 200;

type MetaSource = NonNullable<ReturnType<typeof metaOf>>;
type Graph = NonNullable<MetaSource["graph"]>;
type Get = <Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  token?: string,
) => Promise<z.output<Schema>>;
interface Report {
  problem(text: string): void;
  fact(text: string): void;
}

const appsSchema = z.object({
  data: z.array(
    z.object({
      whatsapp_business_api_data: z.object({ id: z.string(), name: z.string().default("no name") }),
    }),
  ),
});
const levels = {
  phone_number: "the number",
  whatsapp_business_account: "its business account",
  application: "the app",
} as const;
const numbersSchema = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      webhook_configuration: z
        .partialRecord(
          z.enum(["phone_number", "whatsapp_business_account", "application"]),
          z.string(),
        )
        .default({}),
    }),
  ),
});
const subscriptionsSchema = z.object({
  data: z.array(
    z.object({
      object: z.string(),
      callback_url: z.string().default(""),
      active: z.boolean().default(false),
      fields: z.array(z.object({ name: z.string() })).default([]),
    }),
  ),
});
const errorSchema = z.object({ error: z.object({ message: z.string(), code: z.number() }) });

class GraphFailed extends Error {}

interface GraphChecksParts {
  readonly settings: () => Pick<Settings, "sources">;
  readonly redact: (text: string) => string;
}

/**
 * Asks Meta's Graph API whether the webhooks of a source go to it, and if not, why. Changes nothing
 * there.
 */
export function createGraphChecks({ settings, redact }: GraphChecksParts) {
  /**
   * Throws `not_found` for a source that is not in the settings, and `conflict` for one without
   * `graph`.
   */
  return async (name: string): Promise<SourceCheckView> => {
    const { sources } = settings();
    refuseUnknown("not_found", "source", name, Object.keys(sources));
    const source = metaOf(sources[name]);
    if (source?.graph === undefined)
      throw new RelayError(
        "conflict",
        `the source "${name}" has no graph, with which the Graph API is asked`,
      );
    const view: { source: string; problems: string[]; facts: string[] } = {
      source: name,
      problems: [],
      facts: [],
    };
    const report: Report = {
      problem: (text) => void view.problems.push(redact(text)),
      fact: (text) => void view.facts.push(redact(text)),
    };
    const get = createGet(source.graph);
    const isOurs = (url: string): boolean =>
      URL.parse(url)?.pathname.split("/webhooks/")[1]?.split("/")[0] === name;
    const checks = [
      ...source.graph.businessAccounts.map(
        (id) => () => checkBusinessAccount(id, source, isOurs, get, report),
      ),
      () => checkApp(source, isOurs, get, report),
    ];
    for (const check of checks) {
      try {
        await check();
      } catch (error) {
        if (!(error instanceof GraphFailed)) throw error;
        report.problem(error.message);
      }
    }
    return view;
  };
}

async function checkBusinessAccount(
  id: string,
  { graph, account, accounts = {} }: MetaSource,
  isOurs: (url: string) => boolean,
  get: Get,
  { problem, fact }: Report,
): Promise<void> {
  const apps = (await get(`/${id}/subscribed_apps`, appsSchema)).data.map(
    (each) => each.whatsapp_business_api_data,
  );
  const named = apps.map((app) => `${app.name} (${app.id})`).join(", ");
  if (apps.length === 0)
    problem(
      `business account ${id}: no app is subscribed to it, so Meta sends nothing: POST /${id}/subscribed_apps`,
    );
  else if (graph?.appId !== undefined && !apps.some((app) => app.id === graph.appId))
    problem(
      `business account ${id}: the app ${graph.appId} is not subscribed to it, but ${named}: POST /${id}/subscribed_apps`,
    );
  else fact(`business account ${id}: subscribed apps: ${named}`);

  const numbers = await get(
    `/${id}/phone_numbers?fields=id,webhook_configuration&limit=${mostNumbers}`,
    numbersSchema,
  );
  for (const { id: number, webhook_configuration: urls } of numbers.data) {
    const level = (Object.keys(levels) as (keyof typeof levels)[]).find(
      (key) => (urls[key] ?? "") !== "",
    );
    const url = level === undefined ? "" : (urls[level] ?? "");
    if (level === undefined)
      problem(`number ${number}: it has no callback URL, nor has its business account or the app`);
    else if (isOurs(url))
      fact(`number ${number}: ${levels[level]} names ${hostOf(url)} and this source`);
    else
      problem(
        `number ${number}: its webhooks go to another callback, at ${hostOf(url)}, which ${levels[level]} names`,
      );
    if (accountOf({ account, accounts }, [number, id]) === null)
      problem(`number ${number}: no account of the source has it`);
  }
}

/** The callback of the app: templates and accounts are reported there alone. */
async function checkApp(
  { graph, signature }: MetaSource,
  isOurs: (url: string) => boolean,
  get: Get,
  { problem, fact }: Report,
): Promise<void> {
  const [secret] = signature?.secrets ?? [];
  if (graph?.appId === undefined || secret === undefined) return;
  const { appId } = graph;
  const { data } = await get(
    `/${appId}/subscriptions`,
    subscriptionsSchema,
    `${appId}|${secret.reveal()}`,
  );
  const found = data.find(({ object }) => object === "whatsapp_business_account");
  if (found === undefined)
    return problem(
      `app ${appId}: it has no callback for WhatsApp: enter it in the dashboard of the app`,
    );
  const { callback_url: url, active, fields } = found;
  if (!isOurs(url)) return problem(`app ${appId}: its callback is another one, at ${hostOf(url)}`);
  if (!active) return problem(`app ${appId}: its subscription is not active`);
  if (!fields.some((field) => field.name === "messages"))
    return problem(
      `app ${appId}: its subscription lacks the field messages, which brings messages and statuses`,
    );
  fact(`app ${appId}: its callback is this source, at ${hostOf(url)}`);
}

/** Only the host: the path of somebody else's callback may be secret. */
const hostOf = (url: string): string => URL.parse(url)?.host ?? "no URL";

function createGet({ baseUrl, token }: Graph): Get {
  return async (path, schema, other = token.reveal()) => {
    const what = `the Graph API, asked for ${path.split("?")[0]},`;
    let status: number;
    let body: unknown;
    try {
      const answer = await fetch(`${baseUrl}${path}`, {
        headers: { authorization: `Bearer ${other}` },
        redirect: "error",
        signal: AbortSignal.timeout(longestMs),
      });
      status = answer.status;
      body = await answer.json().catch(() => null);
    } catch (error) {
      const { cause, message } = error as Error;
      throw new GraphFailed(
        `${what} does not answer: ${(cause as Error | undefined)?.message ?? message}`,
      );
    }
    const fault = errorSchema.safeParse(body);
    if (fault.success)
      throw new GraphFailed(
        `${what} answered ${status}: ${fault.data.error.message} (code ${fault.data.error.code})`,
      );
    const read = schema.safeParse(body);
    if (status !== 200 || !read.success)
      throw new GraphFailed(`${what} answered ${status} with another body than expected`);
    return read.data;
  };
}
