# Builds the static binary and puts it, with the CA certificates it needs to
# call https receivers, into an image that holds nothing else.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
# The modules change less often than the code: a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/hookladder ./cmd/hookladder

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/hookladder /hookladder
# A number, so that a cluster can see that it is not root without asking /etc/passwd.
USER 65532:65532
# PORT=8080 listens on all addresses, so API_KEYS is needed; REDIS_URL always is.
ENV PORT=8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["/hookladder", "ping"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/hookladder"]
CMD ["serve"]
