import pytest
from rich.pretty import pretty_repr

from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, GcpOauthToken, Secret


@pytest.mark.parametrize(
    "credentials",
    [AwsTempCredentials("key", "hidden", "hidden"), AzureUserDelegationSas("hidden"), GcpOauthToken("hidden")],
)
def test_temporary_credentials_are_never_shown(credentials: Secret) -> None:
    assert "hidden" not in repr(credentials) + pretty_repr(credentials) + pretty_repr([credentials])
