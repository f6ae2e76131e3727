//! The operator that leaves out rows which are not among the first of their group, as bytes: it
//! serves nodes as it does one database.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;
use serde::{Deserialize, Serialize};
use swingdb_operators::top_of_groups::TopOfGroupsExec;

use crate::wire::Bytes;

/// What the operator is besides its input.
#[derive(Serialize, Deserialize)]
struct Said {
    groups: Vec<Bytes>,
    /// Each with whether it is descending, and whether NULLs come first.
    order: Vec<(Bytes, bool, bool)>,
    fetch: usize,
}

/// As bytes, without the input.
pub(crate) fn to_bytes(
    top: &TopOfGroupsExec,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Vec<u8>> {
    let written = |expr: &Arc<dyn PhysicalExpr>| {
        let written = converter.physical_expr_to_proto(expr, codec)?;
        Ok::<_, DataFusionError>(Bytes(written.encode_to_vec()))
    };
    let groups = top.groups().iter().map(written).collect::<Result<Vec<_>>>()?;
    let order = top.order().iter().map(|key| {
        let SortOptions { descending, nulls_first } = key.options;
        Ok((written(&key.expr)?, descending, nulls_first))
    });
    let said =
        Said { groups, order: order.collect::<Result<Vec<_>>>()?, fetch: top.rows_of_group() };
    serde_json::to_vec(&said).map_err(|error| DataFusionError::External(error.into()))
}

/// From bytes and the input.
pub(crate) fn from_bytes(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<TopOfGroupsExec> {
    let said = serde_json::from_slice::<Said>(bytes)
        .map_err(|error| DataFusionError::External(error.into()))?;
    let [input] = inputs else {
        return Err(DataFusionError::Execution("groups of several inputs".to_string()));
    };
    let (schema, context): (SchemaRef, _) =
        (input.schema(), PhysicalPlanDecodeContext::new(context, codec));
    let read = |bytes: &Bytes| {
        let read = PhysicalExprNode::decode(bytes.0.as_slice())
            .map_err(|error| DataFusionError::External(error.into()))?;
        converter.proto_to_physical_expr(&read, &schema, &context)
    };
    let groups = said.groups.iter().map(read).collect::<Result<Vec<_>>>()?;
    let order = said.order.iter().map(|(key, descending, nulls_first)| {
        let options = SortOptions { descending: *descending, nulls_first: *nulls_first };
        Ok(PhysicalSortExpr { expr: read(key)?, options })
    });
    let order = order.collect::<Result<Vec<_>>>()?;
    Ok(TopOfGroupsExec::new(Arc::clone(input), groups, order, said.fetch))
}
