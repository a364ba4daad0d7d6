# One image for servers, workers and language servers: the program and its pinned packages, no root, nothing that is
# written outside of /tmp. `docker build -t tenuto:local .`; compose.yaml says how its containers work together.

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# The pins first: they change less often than the source, and this layer takes the longest.
COPY requirements/cluster.txt requirements/build.txt requirements/
RUN python -m venv /opt/tenuto
RUN /opt/tenuto/bin/python -m pip install --require-hashes --only-binary :all: --requirement requirements/cluster.txt
RUN python -m venv /opt/build
RUN /opt/build/bin/python -m pip install --require-hashes --only-binary :all: --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /opt/wheels .
RUN /opt/tenuto/bin/python -m pip install --no-deps --no-index --find-links /opt/wheels tenuto
RUN /opt/tenuto/bin/python -m compileall -q /opt/tenuto/lib

FROM python:3.13-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tenuto
# Where a volume with tokens may be put; it takes its owner from here.
RUN install -d -o tenuto -g tenuto -m 700 /run/tenuto
COPY --from=build /opt/tenuto /opt/tenuto
ENV PATH=/opt/tenuto/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /app
EXPOSE 8080 50051
STOPSIGNAL SIGTERM
# Of a server; compose.yaml has those of the others.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["tenuto"]
CMD ["server"]
