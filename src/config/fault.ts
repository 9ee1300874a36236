export type SettingsPath = readonly PropertyKey[];

/** One fault in the settings. Never quotes a secret or a value substituted from the environment. */
export interface Fault {
  /** Such as `routes[0].to.url`; empty for a fault of the whole file. */
  readonly path: string;
  readonly message: string;
  /** Such as `config/relay.yaml:31:10 from ${CRM_URL}` (line and column from 1), or the file alone. */
  readonly source: string;
}

/** The settings are invalid. `faults` holds every fault, in the order of the file. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(faultLine).join("\n"));
    this.faults = faults;
  }
}

export function faultLine(fault: Fault): string {
  const cut = fault.source.search(/ from (?:the default of )?\$\{/);
  const place = cut === -1 ? fault.source : fault.source.slice(0, cut);
  const variables = cut === -1 ? "" : ` (${fault.source.slice(cut + 1)})`;
  return `${place}${fault.path === "" ? "" : ` ${fault.path}`}: ${fault.message}${variables}`;
}

/**
 * Such as `routes[0].to.url`. A key that does not look like one becomes `[…]`: where a `: ` is missing, it may contain a
 * secret.
 */
export function pathText(path: SettingsPath): string {
  let text = "";
  for (const key of path.map((part) => (typeof part === "symbol" ? "" : part))) {
    if (typeof key === "number") text += `[${key}]`;
    else if (/^[A-Za-z_$][\w$-]{0,63}$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += /^[\w$.<-]{1,64}$/.test(key) ? `["${key}"]` : "[…]";
  }
  return text;
}
