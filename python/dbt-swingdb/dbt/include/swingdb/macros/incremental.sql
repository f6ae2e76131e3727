{# Strategies of incremental models. #}

{% macro swingdb__get_incremental_default_sql(arg_dict) -%}
  {% if arg_dict['unique_key'] %}
    {% do return(get_incremental_delete_insert_sql(arg_dict)) %}
  {% else %}
    {% do return(get_incremental_append_sql(arg_dict)) %}
  {% endif %}
{%- endmacro %}

{% macro swingdb__get_incremental_microbatch_sql(arg_dict) -%}
  {%- set target = arg_dict['target_relation'] -%}
  {%- set source = arg_dict['temp_relation'] -%}
  {%- set columns = get_quoted_csv(arg_dict['dest_columns'] | map(attribute='name')) -%}
  {%- set predicates = [] + (arg_dict.get('incremental_predicates') or []) -%}
  {%- set event_time = model.config.event_time -%}
  {% if model.batch and model.batch.event_time_start -%}
    {% do predicates.append(event_time ~ " >= timestamp '" ~ model.batch.event_time_start.strftime('%Y-%m-%d %H:%M:%S') ~ "'") %}
  {%- endif %}
  {% if model.batch and model.batch.event_time_end -%}
    {% do predicates.append(event_time ~ " < timestamp '" ~ model.batch.event_time_end.strftime('%Y-%m-%d %H:%M:%S') ~ "'") %}
  {%- endif %}
  delete from {{ target }} as DBT_INTERNAL_TARGET where (
    {{ predicates | join(') and (') }}
  );
  insert into {{ target }} ({{ columns }}) (select {{ columns }} from {{ source }})
{%- endmacro %}
