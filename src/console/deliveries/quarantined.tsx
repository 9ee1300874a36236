import { Link } from "wouter-preact";
import type { RelayEvent } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { useSession } from "../app/session.tsx";
import type { Action } from "../parts/action.tsx";
import { releaseAction } from "../parts/actions.ts";
import { More, useList } from "../parts/list.tsx";
import { Empty, Loading, Problem } from "../parts/notes.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";

/**
 * Signed correctly, but not valid events: the bytes are kept until an operator releases or leaves
 * them.
 */
export function Quarantined({ start }: { start(action: Action): void }) {
  const { can } = useSession();
  const list = useList<RelayEvent, number>(
    (before) => relay.listEvents({ disposition: "quarantined", before }),
    "quarantined",
  );
  const columns: readonly Column<RelayEvent>[] = [
    { title: "Seq", cell: ({ seq }) => seq },
    { title: "Source", cell: ({ source }) => source },
    { title: "Received", cell: ({ receivedAt }) => <Time at={receivedAt} /> },
    { title: "Why", cell: ({ fault }) => <bdi>{fault}</bdi> },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: ({ seq }: RelayEvent) => (
              <button
                type="button"
                class="link"
                onClick={() => start(releaseAction("quarantined", { event: seq }, list.reload))}
              >
                Release
              </button>
            ),
          },
        ]
      : []),
  ];
  return (
    <section>
      <div class="page-head">
        <h2>Quarantined events</h2>
        {can("replay") && list.rows.length > 0 && (
          <button
            type="button"
            onClick={() => start(releaseAction("quarantined", {}, list.reload))}
          >
            Release all
          </button>
        )}
      </div>
      <Problem text={list.problem} retry={list.reload} />
      <Loading isLoading={list.isLoading && list.rows.length === 0} />
      {list.rows.length > 0 ? (
        <Table
          label="Quarantined events"
          rows={list.rows}
          columns={columns}
          keyOf={({ seq }) => seq}
          hrefOf={({ seq }) => `/events/${seq}`}
        />
      ) : (
        !list.isLoading && (
          <Empty title="Nothing is in quarantine">
            <p>
              The relay keeps webhooks here whose signature is right and whose body is not a valid
              event.
            </p>
            <p>
              <Link href="/deliveries">All deliveries</Link>
            </p>
          </Empty>
        )
      )}
      <More list={list} />
    </section>
  );
}
