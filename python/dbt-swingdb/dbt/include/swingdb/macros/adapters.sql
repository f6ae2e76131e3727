{# What dbt asks of relations, in SwingDB's SQL. #}

{% macro swingdb__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'python' -%}
    {{ swingdb__python_table(temporary, relation, compiled_code) }}
  {%- else -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {%- set contract = config.get('contract') -%}
  {{ sql_header if sql_header is not none }}

  create {% if temporary %}temporary {% endif %}table
    {{ relation.include(database=(not temporary), schema=(not temporary)) }}
  {%- if contract.enforced and not temporary %}
    {{ get_assert_columns_equivalent(compiled_code) }}
    {{ get_table_columns_and_constraints() }};
  insert into {{ relation }} ({{ adapter.dispatch('get_column_names', 'dbt')() }}) (
    {{ get_select_subquery(compiled_code) }}
  );
  {%- else %}
  as (
    {{ compiled_code }}
  );
  {%- endif %}
  {%- endif -%}
{%- endmacro %}

{# The code of a model, and what writes its rows: the adapter runs both. #}
{% macro swingdb__python_table(temporary, relation, compiled_code) -%}
{{ compiled_code }}

def materialize(rows, session):
    if session.before("create"):
        session.connection.register("dbt_python_rows", rows)
        try:
            session.connection.execute("""create {{ 'temporary ' if temporary }}table
                {{ relation.include(database=(not temporary), schema=(not temporary)) }}
                as select * from dbt_python_rows""")
        finally:
            session.connection.unregister("dbt_python_rows")
        session.after("create")
{%- endmacro %}

{# Whole numbers of all sizes agree with a contract, since literals are BIGINT. Its table has the
   declared types, and the insert checks that values fit. #}
{% macro swingdb__format_column(column) -%}
  {%- set type = 'whole number' if column.is_integer() else column.dtype -%}
  {{ return({'name': column.name, 'data_type': column.dtype, 'formatted': column.column | lower ~ ' ' ~ type}) }}
{%- endmacro %}

{% macro swingdb__get_columns_in_relation(relation) -%}
  {% call statement('get_columns_in_relation', fetch_result=True) %}
    select column_name, column_type, null as character_maximum_length,
      null as numeric_precision, null as numeric_scale
    from (describe {{ relation }})
  {% endcall %}
  {{ return(sql_convert_columns_in_relation(load_result('get_columns_in_relation').table)) }}
{%- endmacro %}

{% macro swingdb__list_relations_without_caching(schema_relation) -%}
  {% call statement('list_relations_without_caching', fetch_result=True, auto_begin=False) -%}
    select database_name as database, table_name as name, schema_name as schema, 'table' as type
    from duckdb_tables()
    where lower(schema_name) = lower('{{ schema_relation.schema }}')
      and lower(database_name) = lower('{{ schema_relation.database }}')
    union all
    select database_name, view_name, schema_name, 'view'
    from duckdb_views()
    where lower(schema_name) = lower('{{ schema_relation.schema }}')
      and lower(database_name) = lower('{{ schema_relation.database }}')
  {%- endcall %}
  {{ return(load_result('list_relations_without_caching').table) }}
{%- endmacro %}

{% macro swingdb__list_schemas(database) -%}
  {% set sql %}
    select distinct schema_name from duckdb_schemas()
    where lower(database_name) = lower('{{ database }}')
  {% endset %}
  {{ return(run_query(sql)) }}
{%- endmacro %}

{% macro swingdb__check_schema_exists(information_schema, schema) -%}
  {% set sql -%}
    select count(*) from duckdb_schemas()
    where lower(database_name) = lower('{{ information_schema.database }}')
      and lower(schema_name) = lower('{{ schema }}')
  {%- endset %}
  {{ return(run_query(sql)) }}
{%- endmacro %}

{# Temporary tables belong to the session, and have neither database nor schema. #}
{% macro swingdb__make_temp_relation(base_relation, suffix) -%}
  {%- set unique = suffix ~ modules.datetime.datetime.now().strftime('%H%M%S%f') -%}
  {% do return(base_relation.incorporate(path={
    'identifier': base_relation.identifier ~ unique, 'schema': none, 'database': none
  })) %}
{%- endmacro %}

{% macro swingdb__rename_relation(from_relation, to_relation) -%}
  {%- set name = adapter.quote_as_configured(to_relation.identifier, 'identifier') -%}
  {% call statement('rename_relation') -%}
    alter {{ from_relation.type or 'table' }} {{ from_relation }} rename to {{ name }}
  {%- endcall %}
{%- endmacro %}

{% macro swingdb__get_rename_table_sql(relation, new_name) -%}
  alter table {{ relation }} rename to {{ adapter.quote(new_name) }}
{%- endmacro %}

{% macro swingdb__get_rename_view_sql(relation, new_name) -%}
  alter view {{ relation }} rename to {{ adapter.quote(new_name) }}
{%- endmacro %}

{% macro swingdb__get_replace_table_sql(relation, sql) -%}
  create or replace table {{ relation }} as ({{ sql }})
{%- endmacro %}

{% macro swingdb__get_replace_view_sql(relation, sql) -%}
  create or replace view {{ relation }} as ({{ sql }})
{%- endmacro %}

{% macro swingdb__alter_column_type(relation, column_name, new_column_type) -%}
  {% call statement('alter_column_type') -%}
    alter table {{ relation }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
  {%- endcall %}
{%- endmacro %}

{% macro swingdb__current_timestamp() -%}
  now()
{%- endmacro %}

{% macro swingdb__snapshot_string_as_time(timestamp) -%}
  {{ return("'" ~ timestamp ~ "'::timestamp") }}
{%- endmacro %}

{% macro swingdb__snapshot_get_time() -%}
  {{ current_timestamp() }}::timestamp
{%- endmacro %}

{% macro swingdb__get_create_index_sql(relation, index_dict) -%}
  {%- set index = adapter.parse_index(index_dict) -%}
  create {% if index.unique %}unique {% endif %}index {{ adapter.quote(index.render(relation)) }}
  on {{ relation }} ({{ index.columns | join(', ') }})
{%- endmacro %}

{% macro swingdb__alter_relation_comment(relation, comment) -%}
  comment on {{ relation.type or 'table' }} {{ relation }} is '{{ comment | replace("'", "''") }}'
{%- endmacro %}

{# Columns of views have no comments. #}
{% macro swingdb__alter_column_comment(relation, column_dict) -%}
  {%- for name in column_dict if not relation.is_view %}
  {%- set column = column_dict[name] %}
  {%- set quoted = adapter.quote(name) if column['quote'] else name %}
  comment on column {{ relation }}.{{ quoted }} is '{{ column['description'] | replace("'", "''") }}';
  {%- endfor %}
{%- endmacro %}

{# A database has no users: who may open it may read it. #}
{% macro swingdb__apply_grants(relation, grant_config, should_revoke=True) -%}
  {% if grant_config %}
    {% do exceptions.warn('SwingDB has no grants; those of ' ~ relation ~ ' are left out') %}
  {% endif %}
{%- endmacro %}

{% macro swingdb__can_clone_table() -%}
  {{ return(True) }}
{%- endmacro %}
