# Builds the static binary and puts it into a small Debian together with
# redis-server, so that one container with a volume is durable:
#
#   docker build -t hookladder .
#   docker run -v hookladder:/data -e DATA_DIR=/data -e API_KEYS=... -p 8080:8080 --stop-timeout 50 hookladder
#
# It declares no VOLUME: with DATA_DIR and without -v all is gone with the container,
# and a volume that nobody named would only hide that until then.
#
# The build does not see .git. To have `hookladder version` tell the commit, name it:
# --build-arg REVISION=$(git rev-parse HEAD)
#
# What is in it is pinned as far as tags and go.sum go; to pin the bases too, name
# their digests: --build-arg GO_IMAGE=golang@sha256:... --build-arg BASE_IMAGE=debian@sha256:...
#
# Debian's redis-server is the one that the tests run with. It brings
# redis-check-aof, which mends a damaged file, and is not used where REDIS_URL is.
#
# With a Redis elsewhere, the target slim has the binary, its licences and the certificates
# of the authorities, and no shell, package or library:
#
#   docker build --target slim -t hookladder:slim .
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges -e REDIS_URL=... -e API_KEYS=... -p 8080:8080 --stop-timeout 50 hookladder:slim
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules change less often than the code: a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG REVISION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.builtFrom=${REVISION}" -o /out/hookladder ./cmd/hookladder \
 && .ci/licences /out/licences

# Nothing is below it, so there is nothing else to pin or to update. The build's image has the
# certificates.
FROM scratch AS slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/hookladder /usr/local/bin/hookladder
COPY --from=build /out/licences /usr/share/doc/hookladder/licences
# A number, and the settings, as below.
USER 65532:65532
ENV PATH=/usr/local/bin \
    PORT=8080 \
    SHUTDOWN_DELAY=5s \
    METRICS_LISTEN=127.0.0.1:9464
EXPOSE 8080
HEALTHCHECK --interval=2s --timeout=5s --start-period=60s --retries=2 CMD ["hookladder", "ping"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookladder"]
CMD ["serve"]

FROM ${BASE_IMAGE}
# ca-certificates: to call https receivers. Nothing of Debian's own Redis service
# runs; its folder goes, so that nobody takes it for ours.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates redis-server \
 && rm -rf /var/lib/apt/lists/* /var/lib/redis \
 && install -d -m 0700 -o 65532 -g 65532 /data
COPY --from=build /out/hookladder /usr/local/bin/hookladder
# What the binary is made of, beside /usr/share/doc/*/copyright of Debian's packages.
COPY --from=build /out/licences /usr/share/doc/hookladder/licences
# A number, so that a cluster can see that it is not root without asking
# /etc/passwd. A new named volume on /data belongs to it; where a platform mounts
# volumes that only root may write, build with --build-arg RUN_AS=0:0.
ARG RUN_AS=65532:65532
USER ${RUN_AS}
# PORT=8080 listens on all addresses, so API_KEYS is needed; and REDIS_URL or DATA_DIR.
# With LISTEN=off the health check asks at METRICS_LISTEN, which only this container
# reaches; :9464 opens it to a scraper. Containers that share a network need one each.
# SHUTDOWN_DELAY is longer than the health check below takes to notice a stop.
ENV PORT=8080 \
    SHUTDOWN_DELAY=5s \
    METRICS_LISTEN=127.0.0.1:9464
EXPOSE 8080
# A large file takes a while to load, which counts as starting.
HEALTHCHECK --interval=2s --timeout=5s --start-period=60s --retries=2 CMD ["hookladder", "ping"]
# To stop takes longer than the default of 10 s: see deploy/README.md.
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookladder"]
CMD ["serve"]
