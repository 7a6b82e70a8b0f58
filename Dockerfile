# An image for each framework; each serves as agent, and every image as any service: `mlscope serve NAME`.
#   docker build --target pytorch --tag mlscope:0.1.0-pytorch .
# PYTHON_IMAGE pins the base by its digest: --build-arg PYTHON_IMAGE=python@sha256:…
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
ENV PATH=/opt/code/bin:$PATH PYTHONPATH=/opt/code
# Dependencies first: they change less often than the code, which `code` adds last.
WORKDIR /opt/mlscope
COPY pyproject.toml constraints.txt LICENSE ./
RUN mkdir -p schemas mlscope services cli manifests && touch README.md \
    && pip install --constraint constraints.txt ".[datasets,images,otlp,services,telemetry,tls]" \
    && pip uninstall --yes mlscope \
    && useradd --uid 10001 --create-home mlscope
WORKDIR /home/mlscope
ENTRYPOINT ["mlscope"]
CMD ["--help"]

FROM base AS code
COPY . /opt/mlscope
RUN pip install --no-deps --target /opt/code /opt/mlscope

# The default: every service, and agents of ONNX Runtime on a CPU.
FROM base AS onnxruntime
RUN pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[onnxruntime]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

# Small images first: without BuildKit an engine builds every stage above the one that is asked for.
FROM base AS litert
RUN pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[litert]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

FROM base AS openvino
RUN pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[openvino]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

FROM base AS jax
RUN pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[jax]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

FROM base AS tensorflow
RUN pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[tensorflow]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

# TORCH_INDEX may name PyTorch's index of builds for CPUs; the package registry's has CUDA (5 GB).
FROM base AS pytorch
ARG TORCH_INDEX=""
RUN PIP_EXTRA_INDEX_URL="${TORCH_INDEX:-$PIP_EXTRA_INDEX_URL}" \
    pip install --constraint /opt/mlscope/constraints.txt "/opt/mlscope[pytorch,vision]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope

# With NVIDIA's libraries that trace and watch a GPU.
FROM base AS pytorch-gpu
RUN pip install "/opt/mlscope[pytorch,vision,nvidia]" \
    && pip uninstall --yes mlscope
COPY --from=code /opt/code /opt/code
USER mlscope
