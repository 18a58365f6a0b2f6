# A board in a container. Its folder, /srv/board, holds board.toml, the runs and the state of hidden benchmarks:
#   docker build -t tellapart-board .
#   docker run -p 8421:8421 -v "$PWD/my_board:/srv/board" tellapart-board
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

COPY pyproject.toml README.md LICENSE ci/lock.txt /opt/tellapart/
COPY src /opt/tellapart/src
RUN pip install --no-cache-dir --constraint /opt/tellapart/lock.txt "/opt/tellapart[board]" \
    && useradd --create-home --uid 1000 board && mkdir -p /srv/board/runs && chown -R board /srv/board

USER board
WORKDIR /srv/board
VOLUME /srv/board
EXPOSE 8421
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8421/healthz', timeout=5)"]
CMD ["tellapart", "serve", "--board", "/srv/board/board.toml", "--host", "0.0.0.0", "--port", "8421"]
