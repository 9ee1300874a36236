# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json ./
COPY .ci ./.ci
COPY src ./src
RUN npm run build

# The image has its own Node, so the optional one of the clone stays out.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY package.json ./
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY config ./config
RUN install -d -o node -g node /app/data
USER node
VOLUME /app/data
EXPOSE 8080
# Alive, not ready: a full disk is no reason to restart.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT ?? 8080}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# SIGTERM drains: give `docker stop` more time than server.shutdownTimeout.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "dist/cli/wamid-relay.js"]
CMD ["serve", "--config", "config/relay.yaml"]
