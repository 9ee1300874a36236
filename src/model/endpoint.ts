import type { z } from "zod";
import type { ErrorCode } from "./errors.ts";
import type { EndpointName, ParametersOf, Paths } from "./paths.ts";
import type { flag, givenTime, Limited } from "./queries.ts";
import type { View } from "./view.ts";

/**
 * One endpoint of the control API. Its schemas parse each request and describe it in
 * `/v1/openapi.json`.
 */
export interface Endpoint {
  /** Null: any token or session. */
  readonly scope: string | null;
  /**
   * What a token limited to accounts gets. `narrowed`: the handler gets the accounts and keeps to
   * them. `whole`: 403, because the answer or the effect is that of the whole relay. `none`: the
   * same as every token, because nothing is of an account.
   */
  readonly accounts: "narrowed" | "whole" | "none";
  /** The endpoint needs neither. */
  readonly open?: true;
  /** A few words. */
  readonly summary: string;
  /** Markdown, for what the schemas do not say. */
  readonly description?: string;
  /** Names every parameter of the path. */
  readonly params?: z.ZodObject;
  /** A strict object. Without one, every query parameter but `reveal` is refused. */
  readonly query?: z.ZodObject;
  /** Names in lower case, as in Node. */
  readonly headers?: z.ZodObject;
  /** JSON. Optional if the schema takes `undefined`. */
  readonly body?: z.ZodType;
  /**
   * Describes the lines where the endpoint also takes an NDJSON body; the handler gets its bytes.
   */
  readonly lines?: string;
  /** By status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** In addition to those of every endpoint. */
  readonly errors?: readonly ErrorCode[];
  /** False where HEAD would never end. */
  readonly head?: false;
}

export interface Answer {
  /** Default: what its schema is. */
  readonly text?: string;
  readonly schema?: z.ZodType;
  /** Content types other than JSON alone. */
  readonly types?: readonly string[];
  /** What its headers say, by name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of one line, where the answer may be NDJSON. */
  readonly line?: z.ZodType;
}

/** An endpoint of a group of the table: a path with parameters needs `params` that name them. */
export type EndpointOf<Name extends EndpointName> = Endpoint &
  ([ParametersOf<Paths[Name]>] extends [never]
    ? unknown
    : { readonly params: z.ZodObject<Record<ParametersOf<Paths[Name]>, z.ZodType>> });

type Part<E, Key extends string> =
  E extends Readonly<Record<Key, infer S extends z.ZodType>> ? S : never;
type Parsed<S> = [S] extends [never] ? unknown : z.output<S>;

/**
 * What a handler gets, parsed: the parameters of the path and the query, the headers and the fields
 * of the body.
 */
export type Request<E> = Parsed<Part<E, "params">> &
  Parsed<Part<E, "headers">> &
  (E extends { readonly accounts: "narrowed" } ? Limited : unknown) &
  Parsed<Part<E, "query">> &
  (E extends { readonly lines: string }
    ? { readonly body: Parsed<Part<E, "body">> | Uint8Array }
    : Parsed<Part<E, "body">>);

type SchemaOf<E> = E extends { readonly answers: infer Answers }
  ? Part<Answers[keyof Answers], "schema">
  : never;
/** What a handler returns: one of the answers, with times in unix ms. */
export type AnswerView<E> =
  SchemaOf<E> extends infer S ? (S extends z.ZodType ? View<S> : never) : never;

type Written<S> =
  S extends z.ZodOptional<infer Inner>
    ? Written<Inner> | undefined
    : S extends typeof givenTime
      ? Date | string
      : S extends typeof flag
        ? boolean
        : WithReadonlyLists<z.input<S>>;
type WithReadonlyLists<T> = T extends (infer Item)[] ? readonly Item[] : T;
type WrittenShape<S, Keys extends keyof z.input<S>> =
  S extends z.ZodObject<infer Shape>
    ? {
        [Key in keyof Pick<z.input<S>, Keys>]: Key extends keyof Shape
          ? Written<Shape[Key]>
          : never;
      }
    : never;
/**
 * What a client writes for a schema: as its input, with a time as a `Date` or text and a flag as a
 * boolean.
 */
export type Given<S> = [S] extends [never]
  ? unknown
  : S extends z.ZodPrefault<infer Inner>
    ? Given<Inner>
    : S extends z.ZodObject
      ? WrittenShape<S, keyof z.input<S>>
      : S extends z.ZodType
        ? z.input<S>
        : never;
export type GivenRequest<E> = Given<Part<E, "params">> &
  Given<Part<E, "query">> &
  Given<Part<E, "body">> &
  Revealing<E>;
type Revealing<E> = E extends { readonly open: true }
  ? unknown
  : [SchemaOf<E>] extends [never]
    ? unknown
    : { reveal?: boolean | undefined };
export type GivenAnswer<E> = z.output<SchemaOf<E>>;
