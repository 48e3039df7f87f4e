"""The sections of the protocol that the rules of this suite are named by."""

SECTIONS = (
    "REST APIs",
    "List Shares",
    "Get Share",
    "List Schemas in a Share",
    "List Tables in a Schema",
    "List all Tables in a Share",
    "Query Table Version",
    "Query Table Metadata",
    "Read Data from a Table",
    "Request Body",
    "Example for snapshot query",
    "Example for query with startingVersion",
    "Read Change Data Feed from a Table",
    "Timestamp Format",
    "Generate Temporary Table Credential",
    "TemporaryCredentials",
    "AwsCredentials",
    "Delta Sharing Capabilities Header",
    "responseFormat",
    "readerFeatures",
    "includeEndStreamAction",
    "EndStreamAction",
    "API Response Actions in Parquet Format",
    "JSON Wrapper Object In Each Line",
    "Protocol",
    "Metadata",
    "File",
    "Data Change Files",
    "Add File",
    "CDF File",
    "Remove File",
    "Format",
    "Schema Object",
    "Struct Type",
    "Struct Field",
    "Primitive Types",
    "Array Type",
    "Map Type",
    "Example",
    "Partition Value Serialization",
    "Per-file Statistics",
    "API Response Actions in Delta Format",
    "JSON Wrapper Object In Each Line in Delta",
    "Protocol in Delta Format",
    "Metadata in Delta Format",
    "File in Delta Format",
    "SQL Expressions for Filtering",
    "JSON predicates for Filtering",
    "Delta Sharing Streaming Specs",
    "Names",
)
"""Headings of the document, those that have a rule for servers."""

WITHOUT_RULES = (
    "Delta Sharing Protocol",
    "Overview",
    "Delta Sharing Specification",
    "Concepts",
    "API Response Actions",
    "AzureUserDelegationSAS",  # only a server on Azure gives them
    "GcpOauthToken",  # only a server on Google's cloud gives them
    "Delta Kernel Example",
    "Profile File Format",  # a file between people, which no server sends
)
"""Headings that say nothing that a request could show."""

LATER = (
    "Later: metadata by version",
    "Later: pages of files",
    "Later: refresh tokens",
    "Later: historical protocol",
    "Later: async queries",
    "Later: fileidhash",
    "Errors",
    "What clients need",
)
"""What later revisions and real clients add to the document."""
