# One image per service: docker build -f deploy/docker/service.Dockerfile --build-arg SERVICE=walras-ticker .
# SERVICE is the name of a workspace package; its command is the same name without a final "-service".

FROM python:3.11.13-slim-bookworm AS build
ARG SERVICE
# The clearing kernel is compiled here; the compiler stays behind in this stage.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
# The version that pyproject.toml requires.
RUN pip install --no-cache-dir uv==0.13.9
ENV UV_LINK_MODE=copy \
    UV_COMPILE_BYTECODE=1 \
    UV_PYTHON_DOWNLOADS=never \
    UV_PROJECT_ENVIRONMENT=/app/.venv
WORKDIR /source
COPY pyproject.toml uv.lock ./
# The registry of topics: the contracts package links to it.
COPY schemas schemas
COPY libs libs
COPY services services
COPY cli cli
COPY deploy/launcher deploy/launcher
RUN test -n "${SERVICE}" \
    && uv sync --package "${SERVICE}" --locked --no-dev --no-editable \
    && ln -s "/app/.venv/bin/${SERVICE%-service}" /app/service \
    && test -x /app/service

FROM python:3.11.13-slim-bookworm
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# The log keeps everything: no service writes a file that has to outlive its container.
RUN useradd --system --uid 10001 --home-dir /app --no-create-home walras
COPY --from=build /app /app
COPY deploy/docker/create_topics.py deploy/docker/check_health.py /app/
USER walras
WORKDIR /app
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
    CMD ["/app/.venv/bin/python", "-I", "-S", "/app/check_health.py"]
ENTRYPOINT ["/app/service"]
