import { type Command, Option } from "commander";

type Camel<Text extends string> = Text extends `${infer Head}-${infer Rest}`
  ? `${Head}${Capitalize<Camel<Rest>>}`
  : Text;
type LongOf<Flags extends string> = Flags extends `${string}--${infer Rest}`
  ? Rest extends `${infer Long} ${string}`
    ? Long
    : Rest
  : never;
type NameOf<Flags extends string> =
  LongOf<Flags> extends `no-${infer Name}` ? Camel<Name> : Camel<LongOf<Flags>>;
type ValueOf<Flags extends string> = Flags extends `${string}<${string}` ? string : boolean;
export type Given<Flags extends string, Value> =
  LongOf<Flags> extends `no-${string}`
    ? Always<Flags, Value>
    : { readonly [Name in NameOf<Flags>]?: Value | undefined };
export type Always<Flags extends string, Value> = { readonly [Name in NameOf<Flags>]: Value };
/** `earlier`: what a repeated option has given so far, or its default. */
type Parse<Value> = (text: string, earlier: never) => Value;

declare const given: unique symbol;
export type TypedOption<Added> = Option & { readonly [given]?: Added };

/**
 * The part of a commander command that declares it, with the types of its options and arguments.
 */
export interface Typed<Options = unknown, Arguments extends unknown[] = []> {
  readonly [given]?: Options;
  option<Flags extends string>(
    flags: Flags,
    description: string,
    fallback: string,
  ): Typed<Options & Always<Flags, string>, Arguments>;
  option<Flags extends string, Value = ValueOf<Flags>>(
    flags: Flags,
    description: string,
    parse?: Parse<Value>,
  ): Typed<Options & Given<Flags, Value>, Arguments>;
  option<Flags extends string, Value>(
    flags: Flags,
    description: string,
    parse: Parse<Value>,
    fallback: NoInfer<Value>,
  ): Typed<Options & Always<Flags, Value>, Arguments>;
  requiredOption<Flags extends string, Value = string>(
    flags: Flags,
    description: string,
    parse?: Parse<Value>,
  ): Typed<Options & Always<Flags, Value>, Arguments>;
  addOption<Added>(option: TypedOption<Added>): Typed<Options & Added, Arguments>;
  argument<Name extends string, Value = string>(
    name: Name,
    description: string,
    parse?: Parse<Value>,
  ): Typed<Options, [...Arguments, Name extends `[${string}` ? Value | undefined : Value]>;
  description(text: string): Typed<Options, Arguments>;
  addHelpText(position: "after", text: string): Typed<Options, Arguments>;
  action(run: (...given: [...Arguments, options: Options]) => void | Promise<void>): unknown;
}

export type OptionsOf<Declare extends (command: never) => unknown> =
  ReturnType<Declare> extends { readonly [given]?: infer Options } ? Options : never;

export function typed(command: Command): Typed {
  return command as unknown as Typed;
}

/** An option that has more than flags, description and default, such as `conflicts`. */
export function optionOf<Flags extends string, Value = ValueOf<Flags>>(
  flags: Flags,
  description: string,
  parse?: Parse<Value>,
): TypedOption<Given<Flags, Value>> {
  return new Option(flags, description).argParser(parse as Parse<never>);
}
