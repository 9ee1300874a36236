/**
 * The result of routing an event. `parked` is not final: it becomes `routed` when the wamid is registered in time,
 * `filtered` if its reference or metadata do not match, else `ignored`.
 *
 * An item for a business number that no account has is `unassigned`, until the number gets one.
 * A quarantined or unassigned body that is read as an event later is `released`; the event has its own disposition. The stores save the
 * index in this list, so new ones go to the end.
 */
export const dispositions = ["routed", "filtered", "ignored", "quarantined", "parked", "released", "unassigned"] as const;
export type Disposition = (typeof dispositions)[number];

/**
 * The states of a delivery.
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | due at `nextAt` | `delivered`, `dead`, `waiting` (after a failed attempt) |
 * | `held` | waits for an earlier delivery of the same message on the same route | `waiting` |
 * | `delivered` | the destination accepted it | `waiting` (replay) |
 * | `dead` | a dead letter: out of attempts, or rejected permanently | `waiting` (retry, replay) |
 */
export const deliveryStates = ["waiting", "held", "delivered", "dead"] as const;
export type DeliveryState = (typeof deliveryStates)[number];
