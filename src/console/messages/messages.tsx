import type { RelayMessage } from "../../client/relay-client.ts";
import { isStatus, messageStatuses, statusesOf } from "../../model/statuses.ts";
import { relay } from "../app/api.ts";
import { isSeq, isTime, path, type Rules, usePathName, useQuery } from "../app/data.ts";
import { useAccountColumn } from "../parts/accounts.ts";
import { Copy } from "../parts/copy.tsx";
import { ChipFilter, Filters, TextFilter, TimeFilter } from "../parts/filters.tsx";
import { none } from "../parts/format.ts";
import { Answer, Code, Empty } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { Name, RevealButton, useMasked } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Message } from "./message.tsx";

export function Messages() {
  const name = usePathName();
  return name === null ? <MessageList /> : <Message key={name} name={name} />;
}

const statuses = statusesOf(messageStatuses);
const rules: Rules = { status: statuses, from: isTime, to: isTime, before: isSeq };

const ownColumns: readonly Column<RelayMessage>[] = [
  { title: "Message", cell: ({ wamid }) => <Name text={wamid} /> },
  {
    title: "Status",
    cell: ({ status, errorCode }) => (
      <>
        {status === null ? <span class="dim">{none}</span> : <Status word={status} />}
        {errorCode !== null &&
          isStatus(messageStatuses, status) &&
          messageStatuses[status].error && (
            <span class="dim">
              {" "}
              <Name text={errorCode} />
            </span>
          )}
      </>
    ),
  },
  { title: "Phone", cell: ({ phone }) => phone !== null && <Name text={phone} /> },
  { title: "Reference", cell: ({ reference }) => reference !== null && <Name text={reference} /> },
  { title: "Changed", isNumber: true, cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

function MessageList() {
  const { query } = useQuery(rules);
  const { q, status, account, errorCode, from, to, before } = query;
  const filter = { q, status, account, errorCode, from, to };
  const { answer: list, reveal } = useMasked(
    (mask) =>
      relay.listMessages({
        ...filter,
        ...mask,
        before: before === undefined ? undefined : Number(before),
      }),
    [filter, before],
    before !== undefined,
  );
  const columns = useAccountColumn(ownColumns, list.data?.data ?? []);
  const isFiltered =
    Object.values(filter).some((value) => value !== undefined) || before !== undefined;
  return (
    <>
      <div class="page-head">
        <Title>Messages</Title>
        <RevealButton reveal={reveal} />
      </div>
      <Filters rules={rules}>
        <TextFilter label="Search" name="q" placeholder="wamid, reference, phone…" />
        <TextFilter label="Error code" name="errorCode" placeholder="131026" />
        <TextFilter label="Account" name="account" />
        <TimeFilter label="From" name="from" />
        <TimeFilter label="To" name="to" />
        <ChipFilter label="Status" name="status" choices={statuses} />
      </Filters>
      <Answer of={list}>
        {({ data }) =>
          data.length > 0 ? (
            <>
              <p class="dim">The newest messages first, whenever their status changed.</p>
              <Table
                label="Messages"
                rows={data}
                columns={columns}
                keyOf={({ account, wamid }) => `${account} ${wamid}`}
                hrefOf={({ account, wamid }) =>
                  path(`/messages/${encodeURIComponent(wamid)}`, { account })
                }
              />
            </>
          ) : isFiltered ? (
            <Empty title="No message matches">
              <p>
                Search finds a wamid, a masked id from a log line, the service's id, the beginning
                of a reference, a user id of Meta, or the last four digits of a phone.
              </p>
            </Empty>
          ) : (
            <FirstMessage />
          )
        }
      </Answer>
      <Pages page="/messages" next={list.data?.next ?? null} />
    </>
  );
}

function FirstMessage() {
  const message = '{"wamid":"wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD","reference":"order-1234"}';
  const command = `curl ${window.location.origin}/v1/messages/track -H "Authorization: Bearer $RELAY_TOKEN" -H "Content-Type: application/json" -d '${message}'`;
  return (
    <Empty title="No messages yet">
      <p>
        A message appears here with its first status, or when you register it or send it through the
        relay. To register one:
      </p>
      <Code text={command} label="Command" />
      <p>
        <Copy text={command} label="Copy" />
      </p>
      <p class="dim">
        The token needs the scope “track”. Search also finds inbound messages without a status.
      </p>
    </Empty>
  );
}
