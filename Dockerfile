# The image that `make image` writes without Docker, for those who build with Docker:
#   docker build --build-arg VERSION=$(git describe --tags --always) -t warren-mq/warren:0.1.0 .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY client/go.mod client/
RUN go mod download
COPY *.go ./
COPY api api
COPY controllers controllers
COPY internal internal
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /warren .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /warren /warren
USER 65532:65532
ENTRYPOINT ["/warren"]
