{# The catalog of `dbt docs generate`. #}

{% macro swingdb__get_catalog(information_schema, schemas) -%}
  {%- set which -%}
    {%- for schema in schemas -%}
      lower(c.schema_name) = lower('{{ schema }}'){{ ' or ' if not loop.last }}
    {%- else -%} false {%- endfor -%}
  {%- endset -%}
  {{ return(run_query(swingdb__catalog_sql(information_schema.database, which))) }}
{%- endmacro %}

{% macro swingdb__get_catalog_relations(information_schema, relations) -%}
  {%- set which -%}
    {%- for relation in relations -%}
      (lower(c.schema_name) = lower('{{ relation.schema }}')
      {%- if relation.identifier %} and lower(c.table_name) = lower('{{ relation.identifier }}'){% endif -%}
      ){{ ' or ' if not loop.last }}
    {%- else -%} false {%- endfor -%}
  {%- endset -%}
  {{ return(run_query(swingdb__catalog_sql(information_schema.database, which))) }}
{%- endmacro %}

{% macro swingdb__get_catalog_for_single_relation(relation) -%}
  {%- set which -%}
    lower(c.schema_name) = lower('{{ relation.schema }}')
    and lower(c.table_name) = lower('{{ relation.identifier }}')
  {%- endset -%}
  {{ return(run_query(swingdb__catalog_sql(relation.database, which))) }}
{%- endmacro %}

{% macro swingdb__catalog_sql(database, which) -%}
  with relations as (
    select database_name, schema_name, table_name, 'BASE TABLE' as table_type, comment
    from duckdb_tables()
    union all
    select database_name, schema_name, view_name, 'VIEW', comment from duckdb_views()
  )
  select
    c.database_name as table_database,
    c.schema_name as table_schema,
    c.table_name as table_name,
    r.table_type as table_type,
    r.comment as table_comment,
    c.column_name as column_name,
    c.column_index as column_index,
    c.data_type as column_type,
    c.comment as column_comment,
    cast(null as varchar) as table_owner
  from duckdb_columns() as c
  join relations as r using (database_name, schema_name, table_name)
  where lower(c.database_name) = lower('{{ database }}') and ({{ which }})
  order by table_schema, table_name, column_index
{%- endmacro %}
