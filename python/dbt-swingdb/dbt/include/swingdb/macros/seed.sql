{# Seeds: all rows by one statement with parameters. #}

{% macro swingdb__get_binding_char() -%}
  {{ return('?') }}
{%- endmacro %}

{% macro swingdb__load_csv_rows(model, agate_table) -%}
  {%- set columns = get_seed_column_quoted_csv(model, agate_table.column_names) -%}
  {%- set places = ['?'] * (agate_table.column_names | length) -%}
  {%- set sql = 'insert into ' ~ this ~ ' (' ~ columns ~ ') values (' ~ places | join(', ') ~ ')' -%}
  {% do adapter.insert_seed(sql, agate_table) %}
  {{ return(sql) }}
{%- endmacro %}
