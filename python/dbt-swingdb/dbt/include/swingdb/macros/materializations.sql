{# Tables and incremental models, in SQL and in Python. All of a model is one transaction: the old
   table is dropped before the new one takes its name. What fails is taken back, and nobody sees
   what is between. #}

{% materialization table, adapter='swingdb', supported_languages=['sql', 'python'] %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {%- set intermediate = make_intermediate_relation(target) -%}
  {%- set grant_config = config.get('grants') -%}
  {{ drop_relation_if_exists(load_cached_relation(intermediate)) }}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {# dbt has models in Python run from here, and from no macro below. #}
  {% call statement('main', language=model['language']) -%}
    {{ create_table_as(False, intermediate, compiled_code, model['language']) }}
  {%- endcall %}
  {% do swingdb__put_in_place(existing, target, intermediate) %}
  {% do apply_grants(target, grant_config, should_revoke=should_revoke(existing, full_refresh_mode=True)) %}
  {% do persist_docs(target, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{% materialization incremental, adapter='swingdb', supported_languages=['sql', 'python'] %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {%- set intermediate = make_intermediate_relation(target) -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- set grant_config = config.get('grants') -%}
  {%- set strategy = config.get('incremental_strategy') or 'default' -%}
  {%- set strategy_macro = adapter.get_incremental_strategy_macro(context, strategy) -%}
  {%- set rebuild = existing is none or existing.is_view or should_full_refresh() -%}
  {{ drop_relation_if_exists(load_cached_relation(intermediate)) }}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if rebuild %}
    {% call statement('main', language=model['language']) -%}
      {{ create_table_as(False, intermediate, compiled_code, model['language']) }}
    {%- endcall %}
    {% do swingdb__put_in_place(existing, target, intermediate) %}
  {% else %}
    {%- set temporary = make_temp_relation(target) -%}
    {% call statement('rows', language=model['language']) -%}
      {{ create_table_as(True, temporary, compiled_code, model['language']) }}
    {%- endcall %}
    {% set columns = process_schema_changes(on_schema_change, temporary, existing) %}
    {% if not columns %}
      {% set columns = adapter.get_columns_in_relation(existing) %}
    {% endif %}
    {% call statement('main') -%}
      {{ strategy_macro({
        'target_relation': target, 'temp_relation': temporary, 'unique_key': config.get('unique_key'),
        'dest_columns': columns,
        'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
      }) }}
    {%- endcall %}
  {% endif %}
  {% do apply_grants(target, grant_config, should_revoke=should_revoke(existing, rebuild)) %}
  {% do persist_docs(target, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{# A new table takes the place of what was there. #}
{% macro swingdb__put_in_place(existing, target, intermediate) -%}
  {% do create_indexes(intermediate) %}
  {{ drop_relation_if_exists(existing) }}
  {% do adapter.rename_relation(intermediate, target) %}
{%- endmacro %}


{# As dbt's own, which leaves its transaction open. #}
{% materialization clone, adapter='swingdb' %}
  {%- set cloned = context['materialization_clone_default']() -%}
  {% do adapter.commit_if_open() %}
  {{ return(cloned) }}
{% endmaterialization %}
