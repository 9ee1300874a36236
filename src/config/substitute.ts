/** The environment, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A text with its `${…}` filled in. */
export interface Substituted {
  readonly text: string;
  /** Where parts came from, such as `${CRM_URL}` or `the default of ${PORT}`; empty when nothing was filled in. */
  readonly origins: readonly string[];
  /** The parts filled in: never to be shown. */
  readonly hidden: readonly string[];
  /** The text was one variable and nothing else. */
  readonly whole: boolean;
  /** What is wrong with the variables, quoting names only. */
  readonly problems: readonly string[];
}

const variable = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*))?\}|\$\{/g;

/**
 * Fills `${NAME}` and `${NAME:-default}` in; the default stands for an unset or empty variable, as in a
 * shell. `$${` gives `${`. What was filled in is not looked at again. Never throws.
 */
export function substitute(text: string, env: Environment): Substituted {
  if (!text.includes("${")) return { text, origins: [], hidden: [], whole: false, problems: [] };
  const origins: string[] = [];
  const hidden: string[] = [];
  const problems: string[] = [];
  let whole = false;
  const filled = text.replace(variable, (found, name: string | undefined, fallback: string | undefined) => {
    if (found === "$${") return "${";
    if (name === undefined) {
      problems.push(`has \${ that begins no variable: write \${NAME} or \${NAME:-default}, and $\${ for \${ itself`);
      return found;
    }
    whole = found === text;
    const given = Object.hasOwn(env, name) ? env[name] : undefined;
    if (given === undefined && fallback === undefined) {
      problems.push(`needs the environment variable ${name}, which is not set`);
      return found;
    }
    const useDefault = fallback !== undefined && (given === undefined || given === "");
    const value = useDefault ? fallback : (given ?? "");
    origins.push(useDefault ? `the default of \${${name}}` : `\${${name}}`);
    hidden.push(value);
    return value;
  });
  return { text: filled, origins, hidden, whole, problems };
}

/**
 * What a variable's text means as YAML (core schema): a number or true/false; the text itself where it
 * is neither. Decimal numbers only.
 */
export function scalarOf(text: string): string | number | boolean {
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  const number = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? number : text;
}
