# The service with the English model, for clients that send the token:
#   docker build -t ensemble-deid . && docker run -e ENSEMBLE_DEID_TOKEN=SECRET -p 8000:8000 ensemble-deid
# The build needs a network or, where none is, a folder made by `make bundle` as dist/bundle.
# This image has a C compiler.
FROM python:3.11-bookworm AS wheels
WORKDIR /source
COPY . .
RUN if [ ! -f dist/bundle/requirements.txt ]; then \
        python -m venv /build \
        && /build/bin/pip install --no-cache-dir -c constraints.txt . \
        && /build/bin/python -m tools bundle dist/bundle; \
    fi

FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 10001 deid
COPY --from=wheels /source/dist/bundle /bundle
RUN pip install --no-cache-dir --no-index --find-links /bundle --require-hashes -r /bundle/requirements.txt \
    && rm -rf /bundle
USER deid
WORKDIR /home/deid
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["ensemble-deid"]
CMD ["serve", "en", "--host", "0.0.0.0", "--port", "8000"]
