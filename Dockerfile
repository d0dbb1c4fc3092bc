# The worker, and every other command of `follow-up`: docker run IMAGE worker | simulator | doctor | ...

FROM node:24.20.0-bookworm-slim@sha256:ba849c60be29959425b8734d57b8b4b7d56f98edd9504c9af091d5281095a71e AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY bin ./bin
COPY schemas ./schemas
COPY src ./src
RUN npm run build
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:24.20.0-bookworm-slim@sha256:ba849c60be29959425b8734d57b8b4b7d56f98edd9504c9af091d5281095a71e
ENV NODE_ENV=production
WORKDIR /app
# Owned by root and only read: the file system of the container may be read-only.
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/bin ./bin
COPY --from=build /app/schemas ./schemas
COPY --from=build /app/dist ./dist
# The user `node` of the base image, as a number: Kubernetes' runAsNonRoot checks numbers only.
USER 1000:1000
ENV FOLLOW_UP_STATUS_ADDRESS=0.0.0.0:9464
# The memory allocator of the C library keeps what a burst of follow-ups needed, in an arena for each thread. With these
# settings, it returns that memory to the system. docs/explanation/benchmarks.md has the figures.
ENV MALLOC_ARENA_MAX=2
ENV MALLOC_TRIM_THRESHOLD_=131072
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9464/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "bin/follow-up.js"]
CMD ["worker"]
