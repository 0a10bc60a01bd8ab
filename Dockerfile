# syntax=docker/dockerfile:1

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# librdkafka, OpenSSL, zlib and zstd are built from source and linked statically, so the image needs none of them.
# The caches outlive a build; the binary is copied out of the target folder, which does not become part of the layer.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --release --locked --package highwater-service --bin highwater \
    && cp /target/release/highwater /usr/local/bin/highwater

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin highwater \
    # A new volume takes over the owner of the folder that it is mounted on.
    && install --directory --owner highwater --group highwater /lake
COPY --from=build /usr/local/bin/highwater /usr/local/bin/highwater
USER 10001
ENTRYPOINT ["highwater"]
CMD ["run", "--config", "/etc/highwater/highwater.toml"]
