/** The event kinds of Meta's webhook fields, as public as the endpoints. A field that is not here becomes `meta.<field>`. */
export const metaKinds: Readonly<Record<string, string>> = {
  account_alerts: "account.alert",
  account_review_update: "account.review",
  account_settings_update: "account.settings",
  account_update: "account.update",
  automatic_events: "number.automatic_event",
  business_capability_update: "account.capability",
  business_username_update: "number.username",
  business_username_updates: "number.username",
  consumer_profile: "user.profile",
  flows: "flow.update",
  group_lifecycle_update: "group.lifecycle",
  group_participants_update: "group.participants",
  group_settings_update: "group.settings",
  group_status_update: "group.status",
  history: "coexistence.history",
  message_template_components_update: "template.components",
  message_template_quality_update: "template.quality",
  message_template_status_update: "template.status",
  messaging_handovers: "conversation.handover",
  partner_solutions: "account.partner_solution",
  payment_configuration_update: "account.payment",
  phone_number_name_update: "number.name",
  phone_number_quality_update: "number.quality",
  security: "account.security",
  smb_app_state_sync: "coexistence.state",
  standby: "conversation.standby",
  template_category_update: "template.category",
  template_correct_category_detection: "template.category_detected",
  user_id_update: "user.id",
  user_preferences: "user.preferences",
};

/** The kinds of the items of `value`'s lists. */
export const metaItemKinds = {
  statuses: "message.status",
  messages: "message.received",
  message_echoes: "message.echoed",
  callConnect: "call.connect",
  callTerminate: "call.terminate",
  callOther: "call.update",
  callStatus: "call.status",
  errors: "number.error",
} as const;

/** The kind of an update that has no name here. */
export function otherKind(word: string): string {
  return /^[\w.-]{1,64}$/.test(word) ? `meta.${word}` : "meta.unknown";
}
