# penstock with its connectors: the image of jobmanagers, taskexecutors and programs.
#   docker build -t penstock .
FROM rust:1-bookworm AS rust

FROM python:3.12-slim-bookworm AS wheel
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV PATH=/usr/local/cargo/bin:$PATH RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo
RUN apt-get update && apt-get install -y --no-install-recommends build-essential \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
COPY --from=wheel /wheels /wheels
RUN connectors=delta,elasticsearch,iceberg,kafka,kinesis,mongodb,mqtt,postgres,rabbitmq,redis,storage \
 && pip install --no-cache-dir \
      "$(ls /wheels/*.whl)[$connectors,avro,cli,columns,rest,rocksdb,table,tls]" \
 && rm -r /wheels \
 && useradd --create-home --uid 1000 penstock
USER 1000
WORKDIR /home/penstock
ENTRYPOINT ["penstock"]
CMD ["doctor"]
