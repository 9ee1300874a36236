import { relay } from "../app/api.ts";
import { useData } from "../app/data.ts";
import { useSession } from "../app/session.tsx";
import { Copy } from "./copy.tsx";
import { Code } from "./notes.tsx";

/** The command that posts an event to the relay's own source, without an account. */
export function FirstEventCommand() {
  const { isLimited } = useSession();
  const { data } = useData(
    async () => (isLimited ? [] : (await relay.listSources()).data),
    "sources",
  );
  const formats = data?.map(({ format }) => format) ?? [];
  const isMeta = formats.includes("meta") && !formats.includes("standard");
  const command = `wamid-relay trigger ${isMeta ? "meta.status" : "message.status"}`;
  return (
    <>
      <Code text={command} label="Command" />
      <p>
        <Copy text={command} label="Copy" />
      </p>
    </>
  );
}
