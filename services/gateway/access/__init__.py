"""Who may reach the gateway: connections within bounds, hosts, tokens, logins."""
