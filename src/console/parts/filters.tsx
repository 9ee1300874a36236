import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { now } from "../app/clock.ts";
import { path, type Rules, useQuery } from "../app/data.ts";
import { Name } from "./reveal.tsx";
import { Status } from "./status.tsx";

/** The filters of a page, and which values of the URL are none. */
export function Filters({ rules, children }: { rules?: Rules; children: ComponentChildren }) {
  return (
    <>
      <search>
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          {children}
        </form>
      </search>
      <Invalid rules={rules} />
    </>
  );
}

/** Says which values of the URL the page ignores. */
export function Invalid({ rules }: { rules: Rules | undefined }) {
  const { query, invalid } = useQuery(rules);
  const [page] = useLocation();
  return Object.entries(invalid).map(([name, text]) => (
    <p key={name} class="tone-attention" role="status">
      <span aria-hidden="true">▲ </span>
      <Name text={text} /> is not a valid {name}. The page ignores it.{" "}
      <Link href={path(page, query)}>Clear it</Link>
    </p>
  ));
}

interface FieldProps {
  readonly label: string;
  /** Of the parameter in the URL. */
  readonly name: string;
}

/** What a person types into a field until leaving it is one entry of the history. */
function useField(name: string) {
  const { query, set } = useQuery();
  const value = query[name] ?? "";
  const typed = useRef<string | null>(null);
  return {
    value,
    change(next: string) {
      const isMore = typed.current === value;
      typed.current = next;
      set({ [name]: next, before: null }, isMore);
    },
    leave() {
      typed.current = null;
    },
  };
}

/** Takes what was typed once the typing pauses, or at Enter. */
export function TextFilter({
  label,
  name,
  placeholder,
}: FieldProps & { readonly placeholder?: string }) {
  const { value, change, leave } = useField(name);
  const [text, setText] = useState(value);
  // Before the first key: a later effect would undo it.
  useLayoutEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => change(text), 300);
    return () => clearTimeout(timer);
  }, [text, value]);
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="search"
        name={name}
        value={text}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={({ key }) => key === "Enter" && change(text)}
        onBlur={leave}
      />
    </label>
  );
}

/** A moment in the viewer's zone; the value is ISO 8601 in UTC, as the API takes it. */
export function TimeFilter({ label, name }: FieldProps) {
  const { value, change, leave } = useField(name);
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={localTime(value)}
        onChange={({ currentTarget: { value: local } }) =>
          change(local === "" ? "" : new Date(local).toISOString())
        }
        onBlur={leave}
      />
    </label>
  );
}

/** Empty when it is not a time, such as one that somebody typed into the URL. */
function localTime(value: string): string {
  const at = Date.parse(value);
  if (Number.isNaN(at)) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

interface ChoiceProps extends FieldProps {
  readonly choices: readonly string[];
}

/** The empty choice means any. */
export function ChoiceFilter({ label, name, choices }: ChoiceProps) {
  const { query, set } = useQuery({ [name]: choices });
  return (
    <label class="filter">
      <span>{label}</span>
      <select
        value={query[name] ?? ""}
        onChange={({ currentTarget }) => set({ [name]: currentTarget.value, before: null })}
      >
        <option value="">any</option>
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A choice among few words, all in sight. A second click on the chosen one means any. */
export function ChipFilter({ label, name, choices }: ChoiceProps) {
  const { query, set } = useQuery();
  const value = query[name];
  return (
    <fieldset class="filter">
      <legend class="visually-hidden">{label}</legend>
      <div class="chips">
        {choices.map((choice) => (
          <button
            key={choice}
            type="button"
            aria-pressed={choice === value}
            onClick={() => set({ [name]: choice === value ? null : choice, before: null })}
          >
            <Status word={choice} />
          </button>
        ))}
      </div>
    </fieldset>
  );
}

const periods = {
  "1h": 3_600_000,
  "24h": 86_400_000,
  "7d": 604_800_000,
  "30d": 2_592_000_000,
} as const;
type Period = keyof typeof periods;
const names = Object.keys(periods) as Period[];
export const periodRules: Rules = { period: names };

/** The period of the URL. `range` is the one that ends now, as a series takes it. */
export function usePeriod(otherwise: Period) {
  const { query } = useQuery(periodRules);
  const period = (query["period"] as Period | undefined) ?? otherwise;
  return {
    period,
    range: () => ({
      from: new Date(now() - periods[period]),
      step: period.endsWith("h") ? ("minute" as const) : ("hour" as const),
    }),
  };
}

export function PeriodFilter({ otherwise }: { otherwise: Period }) {
  const { set } = useQuery();
  const { period } = usePeriod(otherwise);
  return (
    <fieldset class="segments">
      <legend class="visually-hidden">Period</legend>
      {names.map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === period}
          onClick={() => set({ period: each === otherwise ? null : each })}
        >
          {each.replace(/(\d+)/, "$1 ")}
        </button>
      ))}
    </fieldset>
  );
}
