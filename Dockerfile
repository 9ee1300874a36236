# syntax=docker/dockerfile:1
# To pin the base image: docker buildx imagetools inspect node:24-bookworm-slim shows its digest; then build with
# --build-arg NODE_IMAGE=node:24-bookworm-slim@sha256:<digest>. docs/how-to/deploy.md has the whole command.
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json ./
COPY .ci ./.ci
COPY src ./src
RUN npm run build

# The image has its own Node, so the optional one of the clone stays out, as does the PostgreSQL of its tests.
FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM ${NODE_IMAGE}
ENV NODE_ENV=production
WORKDIR /app
COPY package.json ./
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY config ./config
# What GET /v1/openapi.json reads.
COPY docs/reference/examples.json ./docs/reference/
# Numeric, so that Kubernetes can verify runAsNonRoot. 1000 is the user `node` of the base image.
RUN install -d -o 1000 -g 1000 /app/data
USER 1000:1000
VOLUME /app/data
EXPOSE 8080
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wamid-relay" \
  org.opencontainers.image.description="Self-hosted webhook relay for a business messaging service" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
# Liveness, not readiness: a restart does not help against a full disk. Another --config needs a check of its own.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["node", "dist/cli/wamid-relay.js", "healthcheck", "--config", "config/relay.yaml"]
# SIGTERM drains: give `docker stop` more time than server.shutdownTimeout.
STOPSIGNAL SIGTERM
# Without `--`, Node would read --env-file itself.
ENTRYPOINT ["node", "--", "dist/cli/wamid-relay.js"]
CMD ["serve", "--config", "config/relay.yaml"]
