import { z } from "zod";
import { type ApiFault, limitReached, refused } from "../api/fault.ts";
import type { AccountRecord } from "../world/records.ts";

/** The sandbox's choice of words (messaging-service-api.md, "Codes"). */
export const invalidPhone = (): ApiFault =>
  refused(400, "El teléfono no es válido: usá el formato internacional, con + y código de país (por ejemplo, +5491122334455).");

export const messageNotFound = (): ApiFault => refused(404, "No encontramos ese mensaje en tu cuenta.");

export const notOurStatus = (): ApiFault =>
  refused(400, "Sólo los mensajes del cliente están en received, y ahí se quedan: no se les puede dar otro estado.");

export const conversationNotFound = (): ApiFault => refused(404, "No encontramos esa conversación en tu cuenta.");

export const templateGone = (): ApiFault => refused(404, "La plantilla ya no existe.");

export const templateNotApproved = (): ApiFault => refused(409, "La plantilla todavía no fue aprobada por el proveedor.");

export const windowClosed = (): ApiFault =>
  refused(409, "Pasaron más de 24 horas desde el último mensaje del cliente: para escribirle usá una plantilla.");

export const disconnected = (): ApiFault =>
  refused(409, "La conexión de mensajería de la cuenta está desconectada: volvé a conectarla desde la configuración.");

export const noSuchNumber = (): ApiFault => refused(409, "No hay ningún número conectado con ese phoneNumberId.");

export const noNumber = (): ApiFault => refused(409, "La cuenta no tiene ningún número conectado.");

export const rejectedByProvider = (reason: string): ApiFault => refused(502, `El proveedor rechazó el mensaje: ${reason}`);

export const contactLimitReached = (account: AccountRecord, limit: number, used: number): ApiFault =>
  limitReached(402, `Llegaste al límite de ${limit} contactos de tu plan.`, { plan: account.plan, resource: "contacts", limit, used });

const template = z.object({ id: z.guid(), variables: z.record(z.string(), z.string()).exactOptional() });

/** "POST /messages". The sandbox's choice: unknown fields are ignored. A bad phone is refused elsewhere, with a text of its own. */
export const outgoingBodySchema = z
  .object({
    to: z.string().min(6).max(32),
    phoneNumberId: z.string().exactOptional(),
    text: z.string().min(1).max(4096).exactOptional(),
    template: template.exactOptional(),
  })
  .refine(({ text, template }) => (text === undefined) !== (template === undefined), {
    error: "Mandá exactamente uno de text y template.",
    path: ["text"],
  });
