import { useState } from "preact/hooks";
import type { RelayOverview } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { useLive } from "../app/live.tsx";
import { useSession } from "../app/session.tsx";
import { type Action, ActionDialog } from "../parts/action.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";

type Destination = RelayOverview["destinations"][number];

const columns: readonly Column<Destination>[] = [
  { title: "Route", cell: ({ route }) => route },
  { title: "Destination", cell: ({ to }) => <bdi>{to}</bdi> },
  {
    title: "Done",
    cell: ({ handshake }) =>
      handshake?.doneAt == null ? <span class="dim">not yet</span> : <Time at={handshake.doneAt} />,
  },
];

/** Meta's handshake with the destinations that have a verify token. */
export function Handshakes() {
  const { overview } = useLive();
  const { can } = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const apps = overview?.destinations.filter(({ handshake }) => handshake !== null) ?? [];
  if (apps.length === 0) return null;
  const act: Column<Destination> = {
    title: "Action",
    cell: ({ route, handshake }) => (
      <button
        type="button"
        class="link"
        onClick={() => setAction(handshakeAction(route, handshake?.doneAt != null))}
      >
        {handshake?.doneAt == null ? "Perform" : "Repeat"}
      </button>
    ),
  };
  return (
    <section>
      <h2>Handshakes</h2>
      <Table
        label="Handshakes"
        rows={apps}
        columns={can("replay") ? [...columns, act] : columns}
        keyOf={({ route }) => route}
      />
      <ActionDialog action={action} close={() => setAction(null)} />
    </section>
  );
}

function handshakeAction(route: string, repeat: boolean): Action {
  return {
    title: `${repeat ? "Repeat" : "Perform"} the handshake of ${route}`,
    text: repeat
      ? "The app has accepted its verify token already. Some apps, such as Typebot, delete the token then, and refuse it now."
      : "The relay sends the app its verify token, as Meta does. The app must answer 200 and the challenge.",
    verb: repeat ? "Repeat" : "Perform",
    run: async () => {
      const { problem } = await relay.performHandshake({ route, repeat });
      return problem === null
        ? { tone: "ok", text: "The app accepted it." }
        : { tone: "attention", text: `It failed: ${problem}.` };
    },
  };
}
