//! Tables about what there is none of here.

use crate::bind::system::rows::Kind;

use Kind::{Big, Bigs, Bool, Int, Real, Text, Texts};

/// The tables of `pg_catalog` about what there is none of here, with the columns that clients join
/// by.
pub(crate) const EMPTY: &[(&str, &[(&str, Kind)])] = &[
    (
        "pg_auth_members",
        &[("roleid", Big), ("member", Big), ("grantor", Big), ("admin_option", Bool)],
    ),
    ("pg_collation", &[("oid", Big), ("collname", Text), ("collnamespace", Big)]),
    (
        "pg_depend",
        &[
            ("classid", Big),
            ("objid", Big),
            ("objsubid", Int),
            ("refclassid", Big),
            ("refobjid", Big),
            ("refobjsubid", Int),
            ("deptype", Text),
        ],
    ),
    ("pg_enum", &[("oid", Big), ("enumtypid", Big), ("enumsortorder", Real), ("enumlabel", Text)]),
    (
        "pg_extension",
        &[
            ("oid", Big),
            ("extname", Text),
            ("extowner", Big),
            ("extnamespace", Big),
            ("extversion", Text),
        ],
    ),
    (
        "pg_foreign_server",
        &[
            ("oid", Big),
            ("srvname", Text),
            ("srvowner", Big),
            ("srvfdw", Big),
            ("srvtype", Text),
            ("srvversion", Text),
            ("srvacl", Texts),
            ("srvoptions", Texts),
        ],
    ),
    ("pg_foreign_table", &[("ftrelid", Big), ("ftserver", Big), ("ftoptions", Texts)]),
    (
        "pg_inherits",
        &[("inhrelid", Big), ("inhparent", Big), ("inhseqno", Int), ("inhdetachpending", Bool)],
    ),
    (
        "pg_matviews",
        &[
            ("schemaname", Text),
            ("matviewname", Text),
            ("matviewowner", Text),
            ("definition", Text),
        ],
    ),
    (
        "pg_opclass",
        &[
            ("oid", Big),
            ("opcmethod", Big),
            ("opcname", Text),
            ("opcnamespace", Big),
            ("opcowner", Big),
            ("opcintype", Big),
            ("opcdefault", Bool),
        ],
    ),
    ("pg_partitioned_table", &[("partrelid", Big), ("partstrat", Text), ("partattrs", Text)]),
    (
        "pg_policy",
        &[
            ("oid", Big),
            ("polname", Text),
            ("polrelid", Big),
            ("polcmd", Text),
            ("polpermissive", Bool),
            ("polroles", Bigs),
            ("polqual", Text),
            ("polwithcheck", Text),
        ],
    ),
    (
        "pg_publication",
        &[
            ("oid", Big),
            ("pubname", Text),
            ("pubowner", Big),
            ("puballtables", Bool),
            ("pubinsert", Bool),
            ("pubupdate", Bool),
            ("pubdelete", Bool),
            ("pubtruncate", Bool),
            ("pubviaroot", Bool),
        ],
    ),
    ("pg_publication_namespace", &[("oid", Big), ("pnpubid", Big), ("pnnspid", Big)]),
    (
        "pg_publication_rel",
        &[("oid", Big), ("prpubid", Big), ("prrelid", Big), ("prqual", Text), ("prattrs", Texts)],
    ),
    ("pg_range", &[("rngtypid", Big), ("rngsubtype", Big)]),
    (
        "pg_rewrite",
        &[
            ("oid", Big),
            ("rulename", Text),
            ("ev_class", Big),
            ("ev_type", Text),
            ("ev_enabled", Text),
            ("is_instead", Bool),
        ],
    ),
    (
        "pg_statistic_ext",
        &[
            ("oid", Big),
            ("stxrelid", Big),
            ("stxname", Text),
            ("stxnamespace", Big),
            ("stxowner", Big),
            ("stxkind", Texts),
            ("stxstattarget", Int),
        ],
    ),
    (
        "pg_trigger",
        &[
            ("oid", Big),
            ("tgrelid", Big),
            ("tgname", Text),
            ("tgenabled", Text),
            ("tgisinternal", Bool),
            ("tgparentid", Big),
            ("tgconstraint", Big),
            ("tgfoid", Big),
            ("tgtype", Int),
        ],
    ),
    (
        "pg_cast",
        &[
            ("oid", Big),
            ("castsource", Big),
            ("casttarget", Big),
            ("castfunc", Big),
            ("castcontext", Text),
            ("castmethod", Text),
        ],
    ),
    (
        "pg_default_acl",
        &[
            ("oid", Big),
            ("defaclrole", Big),
            ("defaclnamespace", Big),
            ("defaclobjtype", Text),
            ("defaclacl", Texts),
        ],
    ),
    (
        "pg_event_trigger",
        &[
            ("oid", Big),
            ("evtname", Text),
            ("evtevent", Text),
            ("evtowner", Big),
            ("evtfoid", Big),
            ("evtenabled", Text),
            ("evttags", Texts),
        ],
    ),
    (
        "pg_foreign_data_wrapper",
        &[
            ("oid", Big),
            ("fdwname", Text),
            ("fdwowner", Big),
            ("fdwhandler", Big),
            ("fdwvalidator", Big),
            ("fdwacl", Texts),
            ("fdwoptions", Texts),
        ],
    ),
    (
        "pg_language",
        &[
            ("oid", Big),
            ("lanname", Text),
            ("lanowner", Big),
            ("lanispl", Bool),
            ("lanpltrusted", Bool),
            ("lanplcallfoid", Big),
            ("laninline", Big),
            ("lanvalidator", Big),
            ("lanacl", Texts),
        ],
    ),
    (
        "pg_user_mappings",
        &[
            ("umid", Big),
            ("srvid", Big),
            ("srvname", Text),
            ("umuser", Big),
            ("usename", Text),
            ("umoptions", Texts),
        ],
    ),
];
