import { useState } from "preact/hooks";
import type { RelayAccount, RelayListener, Reload, SecretUse } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { useData } from "../app/data.ts";
import { useSession } from "../app/session.tsx";
import { type Action, ActionDialog } from "../parts/action.tsx";
import { count, none } from "../parts/format.ts";
import { Answer, Code, Empty } from "../parts/notes.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Ago, Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Handshakes } from "./handshakes.tsx";

const refreshMs = 10_000;

/** What is in effect, since when, and how the relay does with it. */
export function SettingsPage() {
  return (
    <>
      <Title>Settings</Title>
      <Process />
      <LastReload />
      <Secrets />
      <Handshakes />
      <Accounts />
      <Listeners />
      <InEffect />
    </>
  );
}

function Process() {
  const instance = useData(() => relay.getInstance(), "instance", refreshMs);
  return (
    <section>
      <h2>This process</h2>
      <Answer of={instance}>
        {(data) => (
          <dl class="facts">
            <dt>Version</dt>
            <dd>{data.version}</dd>
            <dt>Host and process</dt>
            <dd>
              {data.host}, {data.pid}
            </dd>
            <dt>Started</dt>
            <dd>
              <Time at={data.startedAt} />
            </dd>
            <dt>Storage</dt>
            <dd>
              {data.store.driver}, <bdi>{data.store.place}</bdi>
            </dd>
          </dl>
        )}
      </Answer>
    </section>
  );
}

const triggers: Readonly<Record<Reload["trigger"], string>> = {
  start: "at the start",
  signal: "by SIGHUP",
  api: "by a request",
};

function LastReload() {
  const { can } = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const last = useData(() => relay.getReload(), "reload", refreshMs);
  const read: Action = {
    title: "Reload the settings",
    text: "The relay reads its settings file again. If the file has a fault, the previous settings stay in effect.",
    verb: "Reload",
    run: async () => {
      const { changed, needRestart } = await relay.reloadSettings();
      if (changed.length === 0) return { tone: "ok", text: "Nothing has changed." };
      const later = needRestart.length === 0 ? "" : ` After a restart: ${needRestart.join(", ")}.`;
      return { tone: "ok", text: `Changed: ${changed.join(", ")}.${later}` };
    },
    ended: last.reload,
  };
  return (
    <section>
      <div class="page-head">
        <h2>Last reload</h2>
        {can("replay") && (
          <button type="button" onClick={() => setAction(read)}>
            Reload
          </button>
        )}
      </div>
      <Answer of={last}>
        {(data) => (
          <dl class="facts">
            <dt>Result</dt>
            <dd>
              <Status word={data.result} /> <Time at={data.at} />, {triggers[data.trigger]}
            </dd>
            <dt>In effect since</dt>
            <dd>
              <Time at={data.loadedAt} />
            </dd>
            <Names title="Changed" names={data.changed} />
            <Names title="Need a restart" names={data.needRestart} />
            <Names title="Overridden by the environment" names={data.overridden} />
            <Names
              title="Removed secrets that were in use"
              names={data.dropped.map(({ source, secret }) => `${source}: ${secret}`)}
            />
            {data.faults.length > 0 && (
              <>
                <dt>Faults</dt>
                <dd>
                  <ul>
                    {data.faults.map(({ path, message, source }) => (
                      <li key={`${path} ${message}`}>
                        <code>{path}</code>: {message} <span class="dim">({source})</span>
                      </li>
                    ))}
                  </ul>
                </dd>
              </>
            )}
          </dl>
        )}
      </Answer>
      <ActionDialog action={action} close={() => setAction(null)} />
    </section>
  );
}

function Names({ title, names }: { title: string; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>
        <code>{names.join(", ")}</code>
      </dd>
    </>
  );
}

const secretColumns: readonly Column<SecretUse>[] = [
  { title: "Secret", cell: ({ secret }) => <code>{secret}</code> },
  { title: "Source", cell: ({ source }) => source },
  {
    title: "Place in the settings",
    cell: ({ place }) => (place === null ? <span class="dim">removed</span> : <code>{place}</code>),
  },
  { title: "Events", isNumber: true, cell: ({ events }) => count(events) },
  { title: "Duplicates", isNumber: true, cell: ({ duplicates }) => count(duplicates) },
  {
    title: "Last used",
    isNumber: true,
    cell: ({ lastAt }) => (lastAt === null ? none : <Ago at={lastAt} />),
  },
];

/** Which secret verified webhooks, and when last: an unused one can go. */
function Secrets() {
  const secrets = useData(async () => (await relay.listSecrets()).data, "secrets", refreshMs);
  return (
    <section>
      <h2>Webhook secrets</h2>
      <Answer of={secrets}>
        {(data) =>
          data.length === 0 ? (
            <Empty title="No secrets">
              <p>A source needs a secret that verifies its webhooks.</p>
            </Empty>
          ) : (
            <Table
              label="Webhook secrets"
              rows={data}
              columns={secretColumns}
              keyOf={({ source, secret }) => `${source} ${secret}`}
            />
          )
        }
      </Answer>
    </section>
  );
}

const accountColumns: readonly Column<RelayAccount>[] = [
  { title: "Account", cell: ({ account }) => <bdi>{account}</bdi> },
  { title: "Plan", cell: ({ isCallable, plan }) => (isCallable ? plan : none) },
  { title: "Calls", cell: callsOf },
  {
    title: "Calls this month",
    isNumber: true,
    cell: ({ isCallable, budget }) => (isCallable ? monthOf(budget) : none),
  },
  {
    title: "Polls left now",
    isNumber: true,
    cell: ({ isCallable, budget }) => count(isCallable ? budget.pollsNow : null),
  },
  {
    title: "Last pass",
    isNumber: true,
    cell: ({ lastPass }) => (lastPass === null ? none : <Ago at={lastPass.endedAt} />),
  },
  { title: "Result", cell: ({ lastPass }) => (lastPass === null ? none : passOf(lastPass)) },
  {
    title: "Next pass",
    isNumber: true,
    cell: ({ nextPassAt }) => (nextPassAt === null ? none : <Ago at={nextPassAt} />),
  },
];

function callsOf({ isCallable, stops }: RelayAccount) {
  if (!isCallable) return <span class="dim">no baseUrl or apiKey</span>;
  if (stops.length === 0) return <Status word="ok" />;
  return stops.map(({ reason, until }) => (
    <div key={reason}>
      <Status word="stopped" /> {reason}, until <Time at={until} />
    </div>
  ));
}

function monthOf({ polls, others, quota }: RelayAccount["budget"]): string {
  return quota === null ? count(polls + others) : `${count(polls + others)} of ${count(quota)}`;
}

function passOf({
  polled,
  changed,
  failed,
  postponed,
  stopped,
}: NonNullable<RelayAccount["lastPass"]>): string {
  const facts = [`${count(polled)} polled`, `${count(changed)} repaired`];
  if (failed > 0) facts.push(`${count(failed)} failed`);
  if (postponed > 0) facts.push(`${count(postponed)} wait for the budget`);
  if (stopped !== null) facts.push(`stopped: ${stopped.reason}`);
  return facts.join(", ");
}

/**
 * Whether the relay calls the service, what it may still call this month, and what reconciliation
 * did.
 */
function Accounts() {
  const accounts = useData(async () => (await relay.listAccounts()).data, "accounts", refreshMs);
  return (
    <section>
      <h2>Accounts and reconciliation</h2>
      <Answer of={accounts}>
        {(data) =>
          data.length === 0 ? (
            <p class="dim">The settings have no accounts.</p>
          ) : (
            <Table
              label="Accounts"
              rows={data}
              columns={accountColumns}
              keyOf={({ account }) => account}
            />
          )
        }
      </Answer>
    </section>
  );
}

const listenerColumns: readonly Column<RelayListener>[] = [
  {
    title: "Name",
    cell: ({ name }) => (name === null ? <span class="dim">no name</span> : <bdi>{name}</bdi>),
  },
  {
    title: "Connected",
    cell: ({ connectedAt }) =>
      connectedAt === null ? (
        <span class="dim">not to this process</span>
      ) : (
        <Ago at={connectedAt} />
      ),
  },
  { title: "Position", isNumber: true, cell: ({ position }) => count(position) },
  { title: "Behind", isNumber: true, cell: ({ lag }) => count(lag) },
  { title: "Cursor moved", isNumber: true, cell: ({ movedAt }) => <Ago at={movedAt} /> },
];

/** Who follows the events with `listen`, and how far each is. */
function Listeners() {
  const listeners = useData(async () => (await relay.listListeners()).data, "listeners", refreshMs);
  return (
    <section>
      <h2>Listeners</h2>
      <Answer of={listeners}>
        {(data) =>
          data.length === 0 ? (
            <p class="dim">
              No listener is connected. <code>wamid-relay listen</code> brings events to a
              development machine.
            </p>
          ) : (
            <Table
              label="Listeners"
              rows={data}
              columns={listenerColumns}
              keyOf={({ name, connectedAt, position }) => `${name} ${connectedAt} ${position}`}
            />
          )
        }
      </Answer>
    </section>
  );
}

/** The settings as a file, with defaults filled in and secrets masked. */
function InEffect() {
  const settings = useData(() => relay.getSettings(), "settings", refreshMs);
  return (
    <section>
      <h2>Settings in effect</h2>
      <Answer of={settings}>
        {(data) => (
          <>
            <p class="dim">
              {data.file === null ? (
                "From no file"
              ) : (
                <>
                  From <bdi>{data.file}</bdi>
                </>
              )}
              , since <Time at={data.loadedAt} />
            </p>
            <Code text={JSON.stringify(data.settings, null, 2)} label="Settings in effect" />
          </>
        )}
      </Answer>
    </section>
  );
}
