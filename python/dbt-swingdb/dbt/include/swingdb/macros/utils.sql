{# dbt's functions that SwingDB's SQL has under other names. #}

{% macro swingdb__date(year, month, day) -%}
  make_date({{ year }}, {{ month }}, {{ day }})
{%- endmacro %}

{% macro swingdb__dateadd(datepart, interval, from_date_or_timestamp) -%}
  cast({{ from_date_or_timestamp }} as timestamp) + (interval '1 {{ datepart }}') * ({{ interval }})
{%- endmacro %}

{% macro swingdb__datediff(first_date, second_date, datepart) -%}
  {%- set first = 'cast(' ~ first_date ~ ' as timestamp)' -%}
  {%- set second = 'cast(' ~ second_date ~ ' as timestamp)' -%}
  {%- if datepart == 'week' -%}
  {# Weeks begin on Monday, as those of date_trunc. #}
  (datediff('day', date_trunc('week', {{ first }}), date_trunc('week', {{ second }})) // 7)
  {%- else -%}
  datediff('{{ datepart }}', {{ first }}, {{ second }})
  {%- endif -%}
{%- endmacro %}

{% macro swingdb__generate_series(upper_bound) -%}
  select range as generated_number from range(1, {{ upper_bound }} + 1)
{%- endmacro %}

{% macro swingdb__safe_cast(field, type) -%}
  try_cast({{ field }} as {{ type }})
{%- endmacro %}

{% macro swingdb__array_concat(array_1, array_2) -%}
  list_concat({{ array_1 }}, {{ array_2 }})
{%- endmacro %}

{% macro swingdb__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- if limit_num -%}
  array_to_string(list_slice(list({{ measure }} {{ order_by_clause or '' }}), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
  string_agg({{ measure }}, {{ delimiter_text }} {{ order_by_clause or '' }})
  {%- endif -%}
{%- endmacro %}
