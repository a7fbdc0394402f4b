# syntax=docker/dockerfile:1

# docker build --build-arg VERSION="$(git describe --tags --always)" -t millrace .
# docker run --read-only -p 127.0.0.1:7419:7419 -p 127.0.0.1:7420:7420 -v millrace:/data millrace

FROM golang:1.26-bookworm AS build
ARG VERSION=dev
ARG COMMIT=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X millrace/internal/cli.version=$VERSION -X millrace/internal/cli.commit=$COMMIT" \
    -o /out/millrace ./cmd/millrace
# A volume that is made for /data or /backup takes over the owner of the directory in the image.
RUN mkdir -m 0750 /out/data /out/backup

# The binary is all there is: no shell, no libraries, no package to patch.
FROM scratch
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/backup /backup
COPY --from=build /out/millrace /millrace
USER 65532:65532
VOLUME /data
WORKDIR /data

# Loopback would be that of the container, which nobody reaches. So it listens on
# every interface, and what is published with -p, and to whom, is the border.
# Other containers ask HTTP listeners by the name of this one, which is taken to be millrace.
ENV MILLRACE_DATA_DIR=/data \
    MILLRACE_BACKUP_DIR=/backup \
    MILLRACE_LISTEN_INSECURE=true \
    MILLRACE_LISTEN_HOSTS=millrace \
    MILLRACE_BEANSTALKD_ADDR=:11300 \
    MILLRACE_FAKTORY_ADDR=:7419 \
    MILLRACE_WEB_ADDR=:7420 \
    MILLRACE_LMSTFY_ADDR=:7777 \
    MILLRACE_LMSTFY_ADMIN_ADDR=:7778 \
    MILLRACE_MASENKO_ADDR=:12345 \
    MILLRACE_TARANTOOL_ADDR=:3301 \
    MILLRACE_WORKQ_ADDR=:9922
EXPOSE 3301 7419 7420 7777 7778 9922 11300 12345

STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["/millrace", "health"]
ENTRYPOINT ["/millrace"]
CMD ["serve"]
