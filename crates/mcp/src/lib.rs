//! The contract as an MCP server.
