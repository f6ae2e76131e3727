//! Functions that stand before those of the engine, and are called and described as they are.

/// What a function with the engine's in a field says of its name and arguments as that one does.
macro_rules! as_engines_named {
    ($engines:ident) => {
        fn name(&self) -> &str {
            self.$engines.name()
        }

        fn aliases(&self) -> &[String] {
            self.$engines.aliases()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.$engines.signature()
        }
    };
}

/// What a [`ScalarUDFImpl`](datafusion::logical_expr::ScalarUDFImpl) with a field `engines`, the
/// engine's function, says as that one does.
macro_rules! as_engines {
    () => {
        crate::engines_own::as_engines_named!(engines);

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.engines.inner().return_type(types)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.engines.documentation()
        }
    };
}

/// The same of a function whose field `signature` is user-defined. Its arguments get the types that
/// a function of the engine's function and their types gives.
macro_rules! as_engines_coerced {
    ($coerced:path) => {
        fn name(&self) -> &str {
            self.engines.name()
        }

        fn aliases(&self) -> &[String] {
            self.engines.aliases()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            &self.signature
        }

        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<Vec<arrow::datatypes::DataType>> {
            $coerced(&self.engines, types)
        }

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.engines.inner().return_type(types)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.engines.documentation()
        }
    };
}

/// The same of an aggregate: also of its values.
macro_rules! as_engines_values {
    ($engines:ident) => {
        crate::engines_own::as_engines_named!($engines);

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.$engines.return_type(types)
        }

        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<Vec<arrow::datatypes::DataType>> {
            self.$engines.coerce_types(types)
        }

        fn is_nullable(&self) -> bool {
            self.$engines.is_nullable()
        }

        fn default_value(
            &self,
            data_type: &arrow::datatypes::DataType,
        ) -> datafusion::common::Result<datafusion::common::ScalarValue> {
            self.$engines.default_value(data_type)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.$engines.documentation()
        }
    };
}

/// What an [`AggregateUDFImpl`](datafusion::logical_expr::AggregateUDFImpl) with a field `engine`,
/// the engine's function, says as that one does. Whether clauses of calls are taken, and how values
/// are gathered, it says itself.
macro_rules! as_engines_aggregate {
    () => {
        crate::engines_own::as_engines_values!(engine);

        fn return_field(
            &self,
            fields: &[arrow::datatypes::FieldRef],
        ) -> datafusion::common::Result<arrow::datatypes::FieldRef> {
            self.engine.return_field(fields)
        }

        fn simplify(
            &self,
        ) -> Option<datafusion::logical_expr::function::AggregateFunctionSimplification> {
            self.engine.simplify()
        }

        fn reverse_expr(&self) -> datafusion::logical_expr::ReversedUDAF {
            self.engine.reverse_udf()
        }

        fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
            self.engine.order_sensitivity()
        }

        fn set_monotonicity(
            &self,
            data_type: &arrow::datatypes::DataType,
        ) -> datafusion::logical_expr::SetMonotonicity {
            self.engine.inner().set_monotonicity(data_type)
        }
    };
}

pub(crate) use {
    as_engines, as_engines_aggregate, as_engines_coerced, as_engines_named, as_engines_values,
};
