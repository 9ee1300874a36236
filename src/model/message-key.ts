/** Names a message within the store, which alone knows what is in it. */
export type MessageKey = number | string;
