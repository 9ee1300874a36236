/** What a line of the file comes to: JSON without line breaks, for the relay to judge, or why it is none. */
export type FileLine = { readonly line: number; readonly json: string } | { readonly line: number; readonly fault: string };
