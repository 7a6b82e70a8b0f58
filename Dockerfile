# One image, six commands: `mlscope serve NAME`.
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/mlscope
# Dependencies first: they change less often than the code.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir -p schemas mlscope services cli manifests \
    && pip install --constraint constraints.txt ".[datasets,images,onnxruntime,otlp,services]" \
    && pip uninstall --yes mlscope
COPY . .
RUN pip install --no-deps . && useradd --uid 10001 --create-home mlscope
USER mlscope
WORKDIR /home/mlscope
ENTRYPOINT ["mlscope"]
CMD ["--help"]
