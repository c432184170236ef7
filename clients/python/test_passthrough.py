"""Requests that toolwire forwards unread, such as embeddings."""

import openai
import pytest
from langchain_openai import OpenAIEmbeddings
from sdk import STAND, TIMEOUT, client


def test_embeddings_of_openai(upstream):
    answer = client().embeddings.create(model="embeds", input=["Paris", "Grüße"])
    assert [each.embedding for each in answer.data] == [[5.0, 0.0], [5.0, 1.0]]
    assert (answer.model, answer.usage.total_tokens) == ("embeds", 3)
    assert upstream.seen("embeds")["requests"][-1]["input"] == ["Paris", "Grüße"]


def test_embeddings_of_langchain():
    embeddings = OpenAIEmbeddings(
        model="embeds",
        base_url=STAND["url"],
        api_key=STAND["key"],
        timeout=TIMEOUT,
        # Otherwise, LangChain downloads a vocabulary to count tokens.
        check_embedding_ctx_length=False,
    )
    assert embeddings.embed_query("Paris") == [5.0, 0.0]


def test_wrong_key_is_rejected():
    with pytest.raises(openai.AuthenticationError):
        client(api_key="sk-wrong").embeddings.create(model="embeds", input="Paris")


def test_unknown_model_error_names_the_model():
    with pytest.raises(openai.NotFoundError, match="nonesuch"):
        client().embeddings.create(model="nonesuch", input="Paris")
