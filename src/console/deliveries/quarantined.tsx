import { Link } from "wouter-preact";
import type { RelayEvent } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { useData } from "../app/data.ts";
import { useSession } from "../app/session.tsx";
import type { Action } from "../parts/action.tsx";
import { releaseAction } from "../parts/actions.ts";
import { Answer, Empty } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";

/**
 * Signed correctly, but not valid events: the bytes are kept until an operator releases or leaves
 * them.
 */
export function Quarantined({
  before,
  start,
}: {
  before: string | undefined;
  start(action: Action): void;
}) {
  const { can } = useSession();
  const list = useData(
    () =>
      relay.listEvents({
        disposition: "quarantined",
        before: before === undefined ? undefined : Number.parseInt(before, 10),
      }),
    JSON.stringify(["quarantined", before]),
    before === undefined ? 5_000 : null,
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
        {can("replay") && list.data !== null && list.data.data.length > 0 && (
          <button
            type="button"
            onClick={() => start(releaseAction("quarantined", {}, list.reload))}
          >
            Release all
          </button>
        )}
      </div>
      <Answer of={list}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="Nothing is in quarantine">
              <p>
                The relay keeps webhooks here whose signature is right and whose body is not a valid
                event.
              </p>
              <p>
                <Link href="/deliveries">All deliveries</Link>
              </p>
            </Empty>
          ) : (
            <Table
              label="Quarantined events"
              rows={data}
              columns={columns}
              keyOf={({ seq }) => seq}
              hrefOf={({ seq }) => `/events/${seq}`}
            />
          )
        }
      </Answer>
      <Pages page="/deliveries" next={list.data?.next ?? null} />
    </section>
  );
}
